"""The consume queues, which say where the messages of a topic lie in the log."""
