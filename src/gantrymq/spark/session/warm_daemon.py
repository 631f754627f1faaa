"""The process from which Spark forks its Python workers. It imports all large modules before the fork.

PySpark's own daemon imports them in each worker, and runs a full garbage collection after every task, which takes 30 to
55 ms per task. With imports before the fork, and ``gc.freeze``, a task takes about 10 ms
(``spark.python.daemon.module``). No thread may run in this process, because workers are made by fork.
"""

from __future__ import annotations

import gc

import pyarrow
import pyspark.sql.conversion
import pyspark.sql.worker.plan_data_source_read
import pyspark.worker
from pyspark.daemon import manager

import gantrymq.client.sync
import gantrymq.spark.data_source
import gantrymq.spark.sink.exactly_once
import gantrymq.spark.source.reading
from gantrymq.spark.source.quiet_workers import silence_closed_connections

__all__ = ["gantrymq", "pyarrow", "pyspark"]

if __name__ == "__main__":
    silence_closed_connections()
    gc.collect()
    gc.freeze()
    manager()
