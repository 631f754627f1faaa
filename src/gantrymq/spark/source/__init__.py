"""What Spark's driver plans and its tasks read: ranges of queues, in batches and streams."""
