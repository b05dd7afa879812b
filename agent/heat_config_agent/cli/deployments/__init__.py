"""The commands about deployments: their states, details and output, and the requests to run or to forget them.

In come names and the journal; out go tables, texts and requests. It does not run anything, and knows no command of the
machine.
"""
