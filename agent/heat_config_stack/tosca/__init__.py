"""TOSCA: service templates and archives of the Simple Profile in YAML, versions 1.0 to 1.3, read, checked and compiled.

    file ─► archives ─► text ─► grammar ─► documents ─► types ─► service ─► checks
            files       values   shape      imports      inherit   model      mistakes

| module | content |
|---|---|
| `checker` | all mistakes of a file; files that are checked together share what they import |
| `archives` | zip files, folders and the disk: where the files of a service are |
| `text` | YAML 1.2, with the written form of numbers |
| `grammar`, `entities` | what may stand where; the keynames of each entity, as tables |
| `versions`, `profiles/` | the versions, and the normative types of each, as TOSCA documents |
| `documents` | a document with its imports and the names that it knows |
| `types`, `definitions`, `interface_definitions` | types with what they inherit; definitions of their members |
| `primitives`, `constraints`, `values` | values of primitive types; constraints; values held against types |
| `functions` | calls of functions, checked |
| `service` | the model of a service: nodes, requirements with their targets, operations with their inputs |
| `type_checks`, `template_checks`, `requirements`, `filters`, `artifacts`, `groups`, `substitution`, `workflows` |
  what is wrong with each of these |
| `refinements` | what is wrong with properties that refine those of a parent |
| `triggers`, `inputs`, `processors` | triggers; values of inputs that are given; what runs an implementation |
| `report` | mistakes, warnings and open points with their codes |
| `packing` | archives made of a folder or a template |
| `topology` | a service as it is applied: requirements fulfilled, inner services in the place of nodes |
| `evaluation`, `later` | functions evaluated: values, or what only a run can know |
| `operations`, `variables` | the scripts of operations with their files, inputs and machines; names of inputs |
| `compiler` | nodes and operations as the resources of a stack, in their order |
| `procedures`, `conditions` | workflows and the actions of triggers as procedures of a stack |
| `interface_mappings`, `generated_workflows` | workflows in the place of operations of a substituted node |
| `source`, `loader`, `reader` | what was read, as it is stored; its definition; a service from disk |

Operations become deployments: `create` and `delete`, `start` and `stop`, `add_target` and `remove_target` are one
resource each, which `stack/resources/operations.py` carries out.
"""
