"""HOT: Heat's language of templates, read and checked for a stack on this machine.

    text ─► value with positions ─► template ─► definition
    text    language.text           template    compiler

| module | content |
|---|---|
| `reader` | a template, its environments and all files that they name, from disk → `source` |
| `source` | all of that as text, as it is kept with a stack |
| `text` | templates and environments as Heat reads them: `language.text` with YAML 1.1 |
| `template` | sections, version, declarations of parameters and groups |
| `versions`, `functions/` | the sections, keys and functions of each version of HOT |
| `environment`, `registry` | environments, merged; what each type stands for |
| `capabilities`, `capability_choice` | what templates are capable of; the template of a list that fits |
| `capability_search` | templates in folders, by what they are capable of |
| `parameters` | declarations and values |
| `expressions` | trees with functions: examined, and resolved as far as possible |
| `conditions`, `values` | conditions; functions that cannot be resolved yet |
| `compiler` | template and values → `stack.definition` |
| `loader` | source → the definition of a stack, and of its child stacks while it runs |
| `exchange` | source ⇄ the values in which Heat's API exchanges stacks |
| `checker` | all mistakes and warnings of a template |

Nothing here knows the types of resources. Names, messages and rules are Heat's where Heat has them; where Heat answers
with a Python exception, there is a sentence here.
"""
