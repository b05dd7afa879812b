"""Stacks on this machine: creates, updates and deletes the resources of a `definition`, without a cloud.

    definition ─► validation ─► session ─► traversal ─► actions ─► handlers of a resource
                                   │           │           │
                                 store ◄─── records ◄──────┴── deployments ─► servers ─► results

| module | content |
|---|---|
| `definition` | the plain data that a template language hands over; the stack knows no language |
| `validation` | mistakes in a definition: types, properties, attributes, circles, child stacks |
| `advice` | warnings about a definition that is valid: obsolete types, configs that never run |
| `forecast` | the deployments that a definition will make |
| `session` | one stack at work: create, update, delete, suspend, resume, check, signal, continue |
| `snapshots` | the same with snapshots; stacks that are adopted or abandoned |
| `traversal` | the order of the steps for all resources of a stack |
| `actions` | one action of one resource: its handlers, and the record of the result |
| `scheduler`, `meanwhile` | concurrent tasks, and the events that they wait for; the others while one waits |
| `live` | a stack at work, and the values that its functions look up |
| `records`, `store`, `lines`, `listing` | the records of a stack, their file and its lines; all stacks, a folder each |
| `preview` | the effects of an update |
| `spans` | the time that a resource has waited |
| `deployments` | derived configs, the entries of a server's metadata, and results |
| `resource`, `properties`, `attributes`, `constraints`, `support`, `exception`, `snippet` | the parts of a plug-in |
| `unknown_values` | values that are not known while a stack is checked |
| `transfer` | the state of a resource as data, for snapshots and adoption |
| `translation`, `password_gen`, `clients` | what plug-ins use next to them |
| `host` | the stack of a resource, as the resource sees it |
| `heat_types`, `type_schemas` | the facts of all resource types of Heat; the declaration of a type as JSON |
| `plugins`, `plugin_imports`, `plugin_reasons` | plug-ins, their imports, and why one is not used |
| `facade/` | the modules that stand for Heat in plug-ins |
| `nodes` | the states of the nodes of a service |
| `procedure`, `procedures` | steps that people start, carried out and continued; one at a time |
| `machine`, `endpoint` | this machine as all servers; the address for signals of wait conditions |
| `resources/`, `types` | our own resources, written like plug-ins; the class for each type |

Each step is recorded before the next one relies on it. After a kill at any moment, the same command continues as if
nothing had happened: complete resources stay, and an interrupted action is recognised by its `attempt`.

Differences from Heat, on purpose:

- A deployment whose group names no tool fails at once; with Heat, nothing would answer until the stack times out.
- If an update leaves a resource unchanged but makes it depend on a replaced one, it is deleted before that one.
- `OS::Heat::Delay` can be resumed; in Heat it cannot, because it calls a method that does not exist.
- `OS::Heat::MultipartMime` reads the parts of a message in their own encoding, where Heat encodes them once more.
- A stack has no timeout of its own: its deployments and wait conditions have theirs.
"""
