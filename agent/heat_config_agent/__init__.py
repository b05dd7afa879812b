"""The agent: fetches deployments, runs them on this machine, and signals what came of them.

`agent/README.md` is the map of this package.
"""

__version__ = "1.0.0"
