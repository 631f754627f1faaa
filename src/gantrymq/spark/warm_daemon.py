"""The process from which Spark forks its Python workers. It imports all large modules before the fork.

PySpark's own daemon imports them in each worker, and runs a full garbage collection after every task, which takes 30 to
55 ms per task. With imports before the fork, and ``gc.freeze``, a task takes about 10 ms
(``spark.python.daemon.module``). No thread may run in this process, because workers are made by fork.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, Final

import pyarrow
import pyspark.sql.conversion
import pyspark.sql.worker.plan_data_source_read
import pyspark.worker
from pyspark import daemon

import gantrymq.client.sync
import gantrymq.spark.reading
import gantrymq.spark.source

__all__ = ["gantrymq", "pyarrow", "pyspark", "until_the_reader_leaves"]

WORKER_ENDED: Final = 1
"""The status of a worker that serves no further task."""


def until_the_reader_leaves(worker: Callable[..., int]) -> Callable[..., int]:
    """A worker that ends silently when Spark closes the connection while rows are still being sent.

    ``take`` and ``show`` do this as soon as they have enough rows. PySpark's daemon prints a traceback then.
    """

    def ends_silently(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except (BrokenPipeError, ConnectionResetError):
            return WORKER_ENDED

    return ends_silently


if __name__ == "__main__":
    daemon.worker = until_the_reader_leaves(daemon.worker)
    gc.collect()
    gc.freeze()
    daemon.manager()
