"""Documents become a plan: parse, select, plan. Pure: no disk, no network, no clock.

In: documents, and facts about the journal and the machine. Out: deployments, mistakes with their paths, and steps.
It knows neither where a document comes from nor how a step is carried out.
"""
