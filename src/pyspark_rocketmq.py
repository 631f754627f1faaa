"""Registers the format ``rocketmq`` with Spark, which finds the ``DefaultSource`` of every module named ``pyspark_*``.

All such modules are imported at the first look-up of any Python format, and one that raises breaks every format. So
this one never raises: where the connector cannot be imported, the format is there and says why it cannot be used.
"""

from __future__ import annotations

import os
import sys

try:
    from gantrymq.spark.data_source import RocketMQDataSource as DefaultSource

    __all__ = ["DefaultSource"]
except (ImportError, AttributeError, TypeError, ValueError, RuntimeError) as error:  # what mismatched wheels raise
    REASON = (
        f"the format rocketmq cannot be loaded by {sys.executable}: {type(error).__name__}: {error}. Install the "
        f"packages of the connector for this Python (pip install 'gantrymq[spark]'), or let Spark use another one "
        f"(the environment variable PYSPARK_PYTHON)"
    )
    try:
        from pyspark.sql.datasource import DataSource

        class DefaultSource(DataSource):  # type: ignore[no-redef]
            """Stands for the connector, which cannot be imported here."""

            def __init__(self, options: dict[str, str]) -> None:
                os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # the process ends with this error; see spark/error_reports.py
                raise ImportError(REASON)

            @classmethod
            def name(cls) -> str:
                return "rocketmq"

        __all__ = ["DefaultSource"]
    except ImportError:
        __all__ = []
