"""The whole story on one machine: an order service, failures on purpose, Spark behind it, and the proof of the sum.

Absent here: any knowledge of how the broker, the client or Spark work inside. The demo uses what a user would use.
"""
