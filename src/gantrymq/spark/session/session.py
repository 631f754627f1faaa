"""``spark_session``: makes a Spark session with settings that suit this connector."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import gantrymq
from gantrymq.errors import ConfigError
from gantrymq.spark.monitoring.status import DIRECTORY_VARIABLE
from gantrymq.spark.session.java import Java, find_java, quiet_logging
from gantrymq.spark.session.registration import is_local, is_on_one_machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_CONF: Final = "spark.gantrymq.java"
"""The conf key with the Java that the session was started with."""

_JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOCAL_CHECKPOINTS: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
SHORT_JOBS: Final = {_JVM_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For jobs with small batches: the JVM compiles faster and optimises less. This saves a fifth of the time to the first
result."""


def settings(java: Java, *, local: bool, warm_workers: bool, shuffle_partitions: int) -> dict[str, str]:
    """The Spark conf of ``spark_session``. ``local``: everything runs on this machine. ``warm_workers``: the Python of
    the executors can import this package when it starts."""
    conf = {
        JAVA_CONF: f"{java.origin}:{java.real_home}",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.streaming.noDataProgressEventInterval": "1000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        _JVM_OPTIONS: f"-Dlog4j2.configurationFile=file:{quiet_logging()}",
    }
    if warm_workers:
        conf["spark.python.daemon.module"] = "gantrymq.spark.session.warm_daemon"
    if local:
        conf |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            # The default class starts a process (chmod) for every checkpoint file.
            "spark.sql.streaming.checkpointFileManagerClass": _LOCAL_CHECKPOINTS,
        }
    return conf


def spark_session(
    app_name: str,
    *,
    master: str = "local[*]",
    shuffle_partitions: int = 2,
    driver_memory: str = "1g",
    warm_workers: bool | None = None,
    python: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start (or return) a Spark session that knows the format ``rocketmq``.

    No Java needs to be installed: the packaged Java is used, and recorded under the conf key ``spark.gantrymq.java``.
    ``shuffle_partitions``: small by default, because on one machine the fixed cost of each partition takes most of the
    time of a micro-batch; raise it on a cluster. ``warm_workers``: start Spark's Python workers from a process that has
    imported this package (a task then takes 10 ms instead of 40). The default is to do so on one machine only: on a
    cluster every task fails if the Python of an executor cannot import this package at its start, so say True only
    where it is installed there, or in a packed environment (``spark.archives``). ``conf`` is applied last and takes
    precedence (JVM options are added). ``python``: the Python of Spark's workers on a cluster, by a path that is valid
    on every executor and, for planning, beside the driver; the default is PYSPARK_PYTHON, and then the one of this
    process. Spark notes it when its Java starts, so all sessions of a process have that of the first one.
    With the environment variable ``GANTRY_STATUS_DIR``, queries export there how far they are behind (``LagListener``).
    This sets ``JAVA_HOME``, ``PYSPARK_PYTHON``, ``PYSPARK_DRIVER_PYTHON`` and ``PYTHONPATH`` of this process, where
    Spark reads them. Raises ConfigError when there is no Spark, no Java, or no such Python.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ConfigError(f"Spark is not installed; run: pip install 'gantrymq[spark]' ({error})") from error
    java = find_java()
    one_machine = is_on_one_machine(master)
    prepare_environment(java, worker_python(python, one_machine=one_machine), one_machine=one_machine)
    builder = SparkSession.builder.appName(app_name).master(master).config("spark.driver.memory", driver_memory)
    local = is_local(master)
    warm = local if warm_workers is None else warm_workers
    chosen = settings(java, local=local, warm_workers=warm, shuffle_partitions=shuffle_partitions)
    given = dict(conf or {})
    if _JVM_OPTIONS in given and _JVM_OPTIONS in chosen:
        given[_JVM_OPTIONS] = f"{chosen[_JVM_OPTIONS]} {given[_JVM_OPTIONS]}"
    for key, value in {**chosen, **given}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if directory := os.environ.get(DIRECTORY_VARIABLE):
        from gantrymq.spark.monitoring.listener import LagListener

        spark.streams.addListener(LagListener(directory))
    return spark


def worker_python(python: str | None, *, one_machine: bool) -> str:
    """The Python of Spark's workers: the one that was asked for, that of the environment (of a cluster), or this one.

    Raises ConfigError when it is not here, where Spark's planning needs it: Spark would fail with a trace of Java.
    """
    chosen = python or (None if one_machine else os.environ.get("PYSPARK_PYTHON")) or sys.executable
    if shutil.which(chosen) is None:
        raise ConfigError(
            f"the Python of the executors is {chosen!r}, and there is none on this machine: Spark plans queries beside "
            "the driver with the same path. Install or unpack it here, too, or give another path"
        )
    return chosen


def prepare_environment(java: Java, python: str = sys.executable, *, one_machine: bool = True) -> None:
    """Make Spark's processes use this Java, this Python and this package. ``one_machine``: all of
    them are here."""
    os.environ["JAVA_HOME"] = java.home
    # Otherwise the workers use the python3 on the PATH, and not the one of this environment. Functions of a query use
    # the first one. Formats, also on the executors, use the second one if it is set.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python
    if one_machine:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Workers must find this package even if it is not installed, but only on the sys.path of this process.
    package = Path(gantrymq.__file__).resolve().parent
    ours = [str(package / "spark" / "session" / "startup"), str(package.parent)]
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    os.environ["PYTHONPATH"] = os.pathsep.join([*[path for path in ours if path not in paths], *paths])
