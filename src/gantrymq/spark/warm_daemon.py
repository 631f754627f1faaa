"""The process from which Spark forks its Python workers, with all heavy modules imported before the fork.

Stock pyspark imports per worker and runs a full garbage collection after every task, which costs 30 to 55 ms a task.
Importing first and freezing what was imported takes that to about 10 ms (``spark.python.daemon.module``).
No thread may be alive here: workers are made by fork.
"""

from __future__ import annotations

import gc

import pyarrow
import pyspark.sql.conversion
import pyspark.sql.worker.plan_data_source_read
import pyspark.worker
from pyspark.daemon import manager

import gantrymq.client.sync
import gantrymq.spark.reading
import gantrymq.spark.source

__all__ = ["gantrymq", "manager", "pyarrow", "pyspark"]

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
