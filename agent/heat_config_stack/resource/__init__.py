"""A resource as Heat's plug-ins know it: properties, attributes, handlers, and one action at a time.

In: a definition and a record of a resource. Out: the action carried out, and the record of the result.
It knows the stack only as its `host`, and no resource type.

| module | content |
|---|---|
| `resource` | the base class of all types, and the stack of a resource as the resource sees it |
| `properties`, `attributes`, `constraints`, `support`, `snippet`, `translation` | the parts of a plug-in |
| `actions`, `scheduler`, `rolling` | one action of one resource; concurrent tasks; batches of rolling updates |
| `types`, `heat_types`, `type_schemas`, `json_schema` | the class of a type; the facts of Heat's; declarations |
| `config_service` | the configs of a stack, which plug-ins ask for |
"""
