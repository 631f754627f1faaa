"""How far streaming queries are behind: figures, the listener that exports them, and the files that tools read."""
