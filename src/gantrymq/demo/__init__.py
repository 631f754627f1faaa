"""The demo: an order service, failures on purpose, Spark, and the proof that nothing was lost.

Absent here: any knowledge of how the broker, the client or Spark work inside. The demo uses what a user would use.
"""
