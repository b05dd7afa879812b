"""Other machines as servers of a stack, over the OpenSSH client.

In: a file that names a host for each server, and deployments for those servers. Out: results taken over, once each.
It knows no template language, no resource type and no command line; the far side is this package as well.

| module | content |
|---|---|
| `host` | the values of one host, and the command line that reaches it |
| `hosts_file`, `inventory` | the file that names hosts, with its mistakes; an inventory of Ansible in its place |
| `frames` | the protocol's messages on a pair of pipes |
| `connection`, `fleet` | one host, and all hosts of a stack, as its servers: asked again after each break |
| `asked`, `checking` | questions to many hosts at once, in short sessions: can it be used? |
| `leftovers` | the record of the hosts that keep something of a stack, also of one that is gone |
| `far_side` | the process on the host, which carries out deployments with the engine of the agent there |
"""
