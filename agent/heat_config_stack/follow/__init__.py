"""Keeps stacks at the newest revision of their sources: a source is asked, fetched and carried out, in that order."""
