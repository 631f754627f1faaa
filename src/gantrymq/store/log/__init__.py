"""The commit log: append, write, sync."""
