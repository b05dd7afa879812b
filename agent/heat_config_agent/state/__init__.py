"""The journal and everything else that the agent keeps on disk."""
