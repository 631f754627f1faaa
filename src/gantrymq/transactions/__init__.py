"""The rules of half messages: pure decisions without any I/O."""
