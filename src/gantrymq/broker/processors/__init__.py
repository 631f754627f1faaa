"""A file per family of requests."""
