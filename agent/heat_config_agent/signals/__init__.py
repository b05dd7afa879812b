"""The delivery of results to servers: sent, and retried until accepted, refused or superseded."""
