"""The sink of the format ``rocketmq``: rows become messages. See docs/spark-sink.md."""
