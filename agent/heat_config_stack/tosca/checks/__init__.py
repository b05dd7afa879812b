"""All mistakes of a service, with their places.

In: documents and the model of a service. Out: mistakes, warnings and open points with their codes.
It changes nothing, and is not needed to carry out a valid service.
"""
