"""The benchmarks: the agent, the programs it replaces, and the limit, a C program that does the least.

`make bench` runs them. A scenario (`scenarios/`) sets up what is compared and runs each of it once when it is told
to; `measure` does so in turn, A B A B, so that the load of the machine affects all of them; `report` makes ratios of
the medians, and writes `docs/evidence/benchmarks.json` and `docs/evidence/benchmarks.md`. Times are shown and never
gate a change: the counts of `tests/cost/test_counters.py` do.
"""
