"""The daemon: polls sources, carries out deployments and sends results, none of which holds up the others.

In: settings, and a state directory whose lock it takes. Out: work for the engine, and the health file.
It knows no protocol of a source and no tool, and prints nothing but its log.
"""
