"""TOSCA: service templates and archives of the Simple Profile in YAML, versions 1.0 to 1.3, read, checked and compiled.

In: a service template or an archive, with inputs. Out: the definition of a stack, or every mistake with its place.
It knows neither HOT nor what becomes of a definition.

    language ─► files ─► topology ─► evaluation ─► checks ─► compilation
    grammar     texts,   nodes,      functions     mistakes  a definition
    types       archives targets     values                  export: HOT

Operations become deployments: `create` and `delete`, `start` and `stop`, `add_target` and `remove_target` are one
resource each, which `resource_types/operations.py` carries out.
"""
