"""The order in which documents become runs, and runs become results."""
