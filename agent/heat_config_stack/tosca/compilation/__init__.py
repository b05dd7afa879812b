"""A service as the definition of a stack.

In: the model of a service, evaluated. Out: resources in their order, and procedures of workflows.
It runs nothing: operations become deployments, which `resource_types/operations.py` carries out.
"""
