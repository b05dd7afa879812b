"""The delivery of results to servers: sent, and retried until accepted, refused or superseded.

In: results that are on disk, and the addresses of their servers. Out: requests, and the outcome of each.
It knows neither the journal nor the run that a result is of.
"""
