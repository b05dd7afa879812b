"""`heat-config-agent stack`: HOT templates and TOSCA services on this machine, with the options of `openstack stack`.

| module | content |
|---|---|
| `commands` | the commands and their options |
| `definitions`, `templates`, `services` | definitions from the command line and from stored stacks |
| `sessions` | opening a stack for reading, or for work |
| `operations` | create, update, suspend, resume, check, delete, preview, and templates of `heat-config-apply` |
| `live_view` | the progress of work on a stack |
| `queries`, `values` | list, show, outputs, resources, events, and their JSON |
| `type_queries` | the resource types, and the declaration of one |
| `nodes`, `workflows` | the nodes of a service; its workflows and triggers |
| `archives` | snapshots, adopt and abandon |
| `drawing`, `timeline`, `layout`, `svg` | pictures of the graph and of the timeline |
| `secrets` | values that are masked |
"""
