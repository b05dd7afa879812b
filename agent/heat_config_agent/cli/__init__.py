"""The commands. Nothing else of the agent prints.

`main` has the entry points of the programs. Each command is a module with `add`, which declares its options, and `run`,
which does it and returns an exit code.
"""
