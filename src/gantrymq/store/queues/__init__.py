"""The consume queues: they say where the messages of a topic are in the log."""
