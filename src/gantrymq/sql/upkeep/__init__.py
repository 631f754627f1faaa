"""The deletion of old rows."""
