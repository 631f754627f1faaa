"""What happened to a transaction: events, time line, diagnosis."""
