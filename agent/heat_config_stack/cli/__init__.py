"""The commands that the stack package adds: templates, stacks, followed sources, policies and signatures.

In: options of a command line. Out: lines on the terminal, and exit codes.
Only `heat_config_agent.cli.stack_package` knows these commands; no other room prints.

| module | content |
|---|---|
| `stack/` | `stack`, and templates of `heat-config-apply` |
| `template`, `template_options` | `template` and its commands, and the options of a template |
| `template_validation`, `annotations` | templates are checked; their mistakes for code review |
| `template_services` | services are checked, packed as archives and exported as HOT |
| `capabilities` | templates are searched by their capabilities |
| `source`, `policy`, `sign` | the commands of these names |
"""
