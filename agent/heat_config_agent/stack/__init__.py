"""A stack on this machine: what `definition` says is made, changed and removed, with no cloud.

    definition ─► validation ─► session ─► traversal ─► acting ─► a resource's handlers
                                   │           │          │
                                 store ◄─── records ◄─────┴── deployments ─► servers ─► results

| module | what lives there |
|---|---|
| `definition` | the plain data that a language of templates hands over. The stack knows no language |
| `validation` | what is wrong with a definition: types, properties, attributes, circles, child stacks |
| `session` | one stack that is worked on: create, update, delete, suspend, resume, check, signal, go on |
| `traversal`, `graph` | one way through all of a stack: which step comes after which |
| `acting` | one step of one resource: its handlers, and what is kept of them |
| `scheduler` | what goes on side by side, and what each waits for |
| `live` | a stack at work, and what functions can look up in it |
| `records`, `store`, `listing` | what is kept, and the file that it is kept in; all stacks, a folder each |
| `preview` | what an update would do |
| `deployments` | configs derived for an action; entries of a server's metadata; results |
| `resource`, `properties`, `attributes`, `constraints`, `support`, `exception`, `snippet` | what a plug-in is made of |
| `plugins`, `facade` | modules that people bring along; what stands for Heat while they are loaded |
| `machine`, `endpoint` | this machine in the place of all servers; where wait conditions are signalled |
| `resources/`, `types` | our own resources, written as plug-ins are; which class works on which type |

A step is kept before the next relies on it. Killed at any moment, the same command again ends as if nothing had
happened: what was complete is left as it is, what was in progress is taken up by its `attempt`.

On purpose it is not as with Heat that

- a deployment whose group names no tool fails at once: with Heat nobody would answer until the stack's time is over;
- what came to need a replaced resource in an update that left it unchanged is removed before that one;
- `OS::Heat::Delay` can be resumed, which Heat's cannot, for a method that it calls is not there;
- `OS::Heat::MultipartMime` reads the parts of another one in their own encoding, where Heat encodes them once more;
- a stack has no time limit of its own: its deployments and wait conditions have theirs.
"""
