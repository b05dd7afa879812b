"""The hooks of ours, a module for each tool, and what only some of them share: `engines` and `pods`."""
