"""The key index, which finds messages by key and time."""
