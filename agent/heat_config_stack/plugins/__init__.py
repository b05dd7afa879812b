"""Heat's plug-ins of other makers: loaded as they are, without Heat.

In: the folders of plug-ins. Out: classes of resource types, and the reason for each plug-in that is not used.
Nothing loads this room where there are no plug-ins.

| module | content |
|---|---|
| `plugins`, `plugin_imports`, `plugin_reasons` | plug-ins, their imports, and why one is not used |
| `facade/` | the modules that stand for Heat in plug-ins |
| `password_gen`, `progress` | what plug-ins import from Heat next to that |
"""
