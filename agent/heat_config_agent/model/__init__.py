"""The values that pass between the packages: frozen, without input or output, and independent of the other packages.

In: parsed fields. Out: deployments, journal entries, jobs, errors with exit codes, and the words for states.
It knows no other room; what needs the disk or a server belongs there.
"""
