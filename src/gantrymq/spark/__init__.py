"""The PySpark data source ``rocketmq`` and the pipelines built on it."""
