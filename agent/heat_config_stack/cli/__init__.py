"""The commands that the stack package adds: templates, stacks, followed sources, policies and signatures.

In: options of a command line. Out: lines on the terminal, and exit codes.
Only `heat_config_agent.cli.stack_package` knows these commands; no other room prints.

| module | content |
|---|---|
| `stack/` | `stack`, and templates of `heat-config-apply` |
| `template`, `template_validation`, `service_validation` | `template`: templates and services are checked |
| `template_options`, `languages` | the options of a template, and the language that it is written in |
| `capabilities`, `exporting`, `packing` | `template`: searched by capability, exported as HOT, packed as an archive |
| `mistakes`, `annotations` | the mistakes of a text: for people, for machines, and for code review |
| `follow`, `policy`, `sign`, `signed_lists` | the commands of these names, and the lists of what was signed |
"""
