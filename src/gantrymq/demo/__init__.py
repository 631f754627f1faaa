"""The demo (``gantry demo``): an order service, deliberate failures, Spark, and a check that nothing was lost.

It uses only what users can use, and depends on no internals of the broker, the client or Spark.
"""
