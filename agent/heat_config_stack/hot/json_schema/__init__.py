"""The JSON Schema of HOT templates, for editors: sections, functions, and the resource types that it is given.

| module | content |
|---|---|
| `grammar` | the schema as a whole: the sections of a template and their keys |
| `functions` | the functions, with the form of their arguments |

`stack.json_schema` has the resource types. The schema is of draft 7, which every editor knows. A schema sees one
template, and neither environments nor values, so it accepts more than `hot.checker` does. Of what the checker accepts
it refuses only what `docs/templates.md` lists.
"""
