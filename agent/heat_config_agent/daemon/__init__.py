"""The daemon: polls sources, carries out deployments and sends results, none of which holds up the others."""
