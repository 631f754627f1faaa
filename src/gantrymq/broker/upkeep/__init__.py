"""The periodic work of a broker, beside answering requests."""
