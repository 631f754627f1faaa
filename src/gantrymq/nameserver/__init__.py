"""The name server, which tells clients which brokers serve a topic."""
