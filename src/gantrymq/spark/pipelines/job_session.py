"""The Spark session of a pipeline: on this machine, on a cluster, or through Spark Connect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gantrymq.errors import ConfigError
from gantrymq.spark.pipelines.event_stream import STATE_CONF
from gantrymq.spark.pipelines.job import Job, Run
from gantrymq.spark.pipelines.masters import check_master
from gantrymq.spark.pipelines.trying import TRY_CONF
from gantrymq.spark.session import SHORT_JOBS, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ON_A_SERVER: Final = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2", **TRY_CONF}
"""What ``spark_session`` sets at a start, as far as a session of a running server can have it."""


@contextmanager
def session(name: str, run: Run) -> Iterator[SparkSession]:
    """A Spark session where ``run`` says, which ends with the context. ``name``: what Spark's pages call it.

    Raises ConfigError or Unreachable, before Spark starts, when there can be none.
    """
    check_master(run.master)
    spark = _remote(run) if run.is_remote else _own(name, run)
    try:
        yield spark
    finally:
        spark.stop()


def _own(name: str, run: Run) -> SparkSession:
    return spark_session(
        name, master=run.master, driver_memory=run.driver_memory, python=run.python,
        warm_workers=run.warm_workers, conf={**SHORT_JOBS, **STATE_CONF, **TRY_CONF, **run.spark},
    )  # fmt: skip


def _remote(run: Run) -> SparkSession:
    from pyspark.errors import PySparkImportError
    from pyspark.sql import SparkSession

    from gantrymq.spark.registration import register

    try:
        spark = SparkSession.builder.remote(run.master).getOrCreate()
    except (ImportError, PySparkImportError) as error:
        raise ConfigError(f"for {run.master}: pip install 'gantrymq[spark-connect]'") from error
    register(spark)
    _set(spark, {**ON_A_SERVER, **run.spark})
    return spark


def configure(spark: SparkSession, job: Job) -> None:
    """Set what a stream of the job needs, as far as a running session can change it."""
    _set(spark, {**STATE_CONF, **TRY_CONF, **job.run.spark})


def _set(spark: SparkSession, conf: Mapping[str, str]) -> None:
    for key, value in conf.items():
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)
