"""The official Java clients on our server, and as a control on Apache's: one expectation for both."""
