"""The table of open transactions, and how it is rebuilt at a start."""
