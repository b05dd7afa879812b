"""HOT: Heat's language of templates, read and checked for a stack on this machine.

In: a template, its environments and files. Out: the definition of a stack, or every mistake with its place.
It knows neither the types of resources nor what becomes of a definition.

    files ─► source ─► template ─► definition
    reader   source    template    loader, compiler

| module | content |
|---|---|
| `source` | a template, its environments and files as text, as it is kept with a stack |
| `reader` | that from disk, and in the form in which Heat's API exchanges it |
| `template` | sections, version, parameter groups and capabilities |
| `versions`, `functions/` | the sections, keys and functions of each version of HOT |
| `environment` | environments, merged; the types and templates that types stand for |
| `capabilities` | the template of a list that fits, and templates in folders by their capabilities |
| `parameters` | declarations and values |
| `expressions` | trees with functions and conditions: examined, and resolved as far as possible |
| `compiler` | template and values → the definition of a stack |
| `loader` | source → definition, also of child stacks; all mistakes and warnings of a template |
| `json_schema` | the language as a JSON Schema, for editors |

Names, messages and rules are Heat's where Heat has them; where Heat answers
with a Python exception, there is a sentence here.
"""
