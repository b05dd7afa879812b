"""Mistakes in texts that people write: documents of deployments, settings, HOT and TOSCA.

Content comes in; its kind, its value with the place of every part, and its mistakes with hints go out.
Nothing of a language is known here, nor read from disk, and nothing is loaded for a document without mistakes.

| module | content |
|---|---|
| `kinds` | the kind of a file, from its content or its name |
| `text` | a text in YAML or JSON, of a language or with deployments: its value, and the position of every part |
| `mistakes` | the error that carries the mistakes of a text; a mistake itself is `model.mistake` |
| `diagnostics` | the mistakes and warnings of one text, collected while it is examined |
| `words` | "did you mean" |
| `names` | the names that stacks may have |
"""
