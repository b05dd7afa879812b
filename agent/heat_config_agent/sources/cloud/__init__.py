"""The sources that a cloud gives to a machine: Heat over its transports, the metadata service, the config drive.

In: the settings of a source. Out: the document that the cloud has for this machine, or why there is none.
A source knows neither the other sources nor when it is asked; `sources.make` loads the one that is needed.
"""
