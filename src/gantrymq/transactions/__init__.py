"""The rules of half messages: pure decisions, no I/O of their own."""
