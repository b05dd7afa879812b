"""HOT: Heat's language of templates, read and checked for a stack on this machine.

    text ─► nodes with positions ─► template ─► definition
    text      yaml                   template     compiling

| module | what lives there |
|---|---|
| `reading` | a template, its environments and all files that they name, from disk → `source` |
| `source` | all of that as text, as it is kept with a stack |
| `text` | YAML or JSON → its JSON value, and where each part of it stands |
| `template` | sections, version, declarations of parameters and groups |
| `versions`, `functions/` | what each version of HOT has; its functions, each as a look at arguments and a value |
| `environment`, `registry` | environments, merged; what types stand for |
| `capabilities`, `choosing` | what templates are capable of; which of a list is meant |
| `finding` | templates in folders, by what they are capable of |
| `parameters` | declarations and values |
| `expressions` | trees with functions in them: looked through, and resolved as far as can be |
| `deciding`, `values` | conditions; what is left of functions |
| `compiling` | template and values → `stack.definition` |
| `loading` | source → the definition of a stack, and of its child stacks while it runs |
| `report` | mistakes and warnings, collected with their places |

Nothing here knows what a resource is. Names, messages and rules are Heat's wherever that has any; where it answers with
an exception of Python there is a sentence here.
"""
