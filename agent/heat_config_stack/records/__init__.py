"""The records of stacks on disk: what was done, kept so that any kill leaves a stack that can go on.

In: changes of stacks, resources, configs and deployments. Out: their records, and the list of all stacks.
It knows nothing of templates, resource types or runs.

| module | content |
|---|---|
| `records` | the values: a stack, a resource, a config, a deployment, a snapshot, an event |
| `store` | the file of a stack, and its lines |
| `listing` | all stacks, a folder each |
| `kept_files`, `spans` | the files that operations need; the time that a resource has waited |
| `exception` | the failures of stacks, with the names that plug-ins know from Heat |
"""
