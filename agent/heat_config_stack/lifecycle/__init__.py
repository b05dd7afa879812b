"""The life of a stack: create, update, suspend, resume, check, delete, roll back, and continue after a kill.

In: a definition. Out: deployments for the agent's engine, results taken over, records of every step.
It knows no template language and no single resource type.

| module | content |
|---|---|
| `validation`, `advice`, `preview` | mistakes, warnings and the effects of a definition, before anything is done |
| `session` | the commands of a stack that is opened for work, with its workflows and snapshots |
| `traversal` | the order of the steps |
| `live`, `nodes`, `procedure` | a stack at work, the nodes of its service, the steps of a workflow |
| `deployments`, `machine`, `endpoint` | entries of a server's metadata; this machine as all servers; signals by HTTP |

Each step is recorded before the next one relies on it. After a kill at any moment, the same command continues as if
nothing had happened: complete resources stay, and an interrupted action is recognised by its `attempt`.
"""
