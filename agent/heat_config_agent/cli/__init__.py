"""The commands. Nothing else of the agent prints.

`main` has the entry points of the programs. Each command is a module with two functions: `add` declares its options,
and `run` carries it out and returns an exit code. The modules of this folder are the frame of all commands.
"""
