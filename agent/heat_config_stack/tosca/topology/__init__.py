"""A service as it is applied: nodes, requirements with their targets, inner services in the place of nodes.

In: documents. Out: the model of a service.
It evaluates no function and makes no resource.
"""
