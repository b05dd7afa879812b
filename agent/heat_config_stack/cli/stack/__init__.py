"""`heat-config-agent stack`: HOT templates and TOSCA services on this machine, with the options of `openstack stack`.

In: options of a command line, and the folders of stacks. Out: changed stacks, and lines or JSON for people.
It knows neither how a template is read nor how a resource is made.

| module | content |
|---|---|
| `commands` | the commands and their options |
| `operations` | create, update, suspend, resume, check, delete, plans, retry; templates of `heat-config-apply` |
| `templates`, `services` | definitions of HOT and of TOSCA, from the command line and from stored stacks |
| `origin` | the files that a stack is made of: signed, and the same as before |
| `plan`, `forecast` | the dry run: changes and values; deployments in advance, and refusals of the policy |
| `sessions` | opening a stack for reading, or for work |
| `live_view`, `timeline` | the progress of work on a stack; when each resource was worked on |
| `queries`, `values` | list, show, outputs, resources, nodes and events; their JSON, with secrets masked |
| `heat_events`, `happened` | events as JSON; those of a stack for the command `events` |
| `failed`, `definitions` | the failures of a stack; the template and the environment that it has |
| `cancel` | ends the action that is running |
| `type_queries` | the resource types, and the declaration of one |
| `workflows` | the workflows and triggers of a service |
| `archives` | snapshots, adopt and abandon |
| `drawing` | pictures of the graph and of the timeline |
"""
