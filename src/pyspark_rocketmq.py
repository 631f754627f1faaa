"""Registers the format ``rocketmq`` with Spark, which finds the ``DefaultSource`` of every module named ``pyspark_*``.

All such modules are imported at the first look-up of any Python format, and one that raises breaks every format. So
this one never raises: where the connector cannot be imported, only ``rocketmq`` stays unknown.
"""

from __future__ import annotations

try:
    from gantrymq.spark.source import RocketMQDataSource as DefaultSource

    __all__ = ["DefaultSource"]
except (ImportError, AttributeError, TypeError, ValueError, RuntimeError):  # what mismatched binary wheels raise
    __all__ = []
