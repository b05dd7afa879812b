"""The code that all template languages share.

| module | content |
|---|---|
| `text` | YAML or JSON to its value, with the position and the written form of every part |
| `positions` | the path of a value in a document, and the place of its text in a file |
| `mistakes` | one mistake, and the error that carries all of them |
| `report` | mistakes and warnings of one text, in the order of the text, with hints |
| `files` | files by name, read from disk with limits |

A language is a package above this one. What differs between languages is a parameter: see `text.Language`.
"""
