"""Stacks on this machine: HOT templates and TOSCA services, carried out through the agent's engine, without a cloud.

    hot/ ──┐
           ├─► definition/ ─► lifecycle/ ─► the agent's engine
    tosca/ ┘   plain data      │
                    resource/  resource_types/  records/  plugins/

| room | in | out |
|---|---|---|
| `language/` | text | values with places, mistakes in the order of the text |
| `hot/`, `tosca/` | templates, services, files | a definition, or all mistakes |
| `definition/` | | the plain data of a stack, which both languages make and no room changes |
| `records/` | changes | what was done, on disk |
| `resource/` | a definition and a record of a resource | one action carried out |
| `resource_types/` | | our own resource types, written like plug-ins |
| `lifecycle/` | a definition | deployments, results, records of every step |
| `plugins/` | plug-ins of Heat | classes of resource types |
| `follow/` | a source: git, a URL, a registry, a path | its newest revision carried out |
| `cli/` | options | lines and exit codes |

Differences from Heat, on purpose:

- A deployment whose group names no tool fails at once; with Heat, nothing would answer until the stack times out.
- If an update leaves a resource unchanged but makes it depend on a replaced one, it is deleted before that one.
- `OS::Heat::Delay` can be resumed; in Heat it cannot, because it calls a method that does not exist.
- `OS::Heat::MultipartMime` reads the parts of a message in their own encoding, where Heat encodes them once more.
- A stack has no timeout of its own: its deployments and wait conditions have theirs.
"""
