"""Makes the format ``rocketmq`` known in a session that cannot find it by itself, and brings the package to executors.

Spark finds the format by itself where the Python of its workers can import this package: everywhere in a session of
``spark_session``, and in other sessions if ``PYSPARK_PYTHON`` names the Python of an environment that contains it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import gantrymq
from gantrymq.runtime.guesses.directories import new_temporary_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_STREAMS = "streaming_job"
_PYTHON_CONFS = ("spark.pyspark.python", "spark.pyspark.driver.python")


def register(spark: SparkSession, *, ship: bool = False) -> None:
    """Register the format ``rocketmq`` in a session.

    ``ship``: first send this package to the executors as a zip archive. They still need the packages it is built on:
    pyspark, pyarrow, numpy and msgspec. On one machine, where ``PYSPARK_PYTHON`` is not set, Spark's workers are
    started with the Python of this process. Works in a classic session and in one of Spark Connect; there, streams need
    the package beside the server, because the process that plans them does not look into what clients send.
    """
    from gantrymq.spark.data_source import RocketMQDataSource

    remote = type(spark).__module__.startswith("pyspark.sql.connect")
    if ship and remote:
        spark.addArtifacts(str(package_archive()), pyfile=True)
    elif ship:
        # Before the registration, because Spark notes then which files the workers of the format get.
        archive = package_archive()
        spark.sparkContext.addPyFile(str(archive))
        _give_to_planners(archive)
    if not remote and _python_is_open(spark):
        spark.sparkContext.pythonExec = sys.executable
    spark.dataSource.register(RocketMQDataSource)


def _give_to_planners(archive: Path) -> None:
    """Copy the archive to where the processes that plan streams look for it.

    They run beside the driver. Spark tells them a subdirectory of the files of the session, and puts nothing into it.
    """
    from pyspark import SparkFiles

    directory = Path(SparkFiles.getRootDirectory()) / _OF_STREAMS
    directory.mkdir(exist_ok=True)
    shutil.copy(archive, directory)


def _python_is_open(spark: SparkSession) -> bool:
    """Whether nobody has chosen the Python of the workers, which are on this machine."""
    conf = spark.sparkContext.getConf()
    chosen = "PYSPARK_PYTHON" in os.environ or any(conf.contains(name) for name in _PYTHON_CONFS)
    return not chosen and is_local(conf.get("spark.master", ""))


def is_local(master: str) -> bool:
    """Whether the workers are children of this machine's driver, with its files and its environment."""
    return master == "local" or master.startswith("local[")


def is_on_one_machine(master: str) -> bool:
    """Whether driver and executors are on this machine, and need no address that others reach."""
    return is_local(master) or master.startswith("local-cluster[")


def package_archive() -> Path:
    """A zip archive with the Python modules of this package, for ``addPyFile`` or ``spark.submit.pyFiles``.

    It is removed when this process ends. A compiled core stays behind: Python cannot import it from an archive, and
    takes the same modules in pure Python.
    """
    root = Path(gantrymq.__file__).resolve().parent
    directory = new_temporary_directory("gantrymq-package-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    archive = directory / f"gantrymq-{gantrymq.__version__}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for source in sorted(root.rglob("*.py")):
            file.write(source, source.relative_to(root.parent))
        file.write(root.parent / "pyspark_rocketmq.py", "pyspark_rocketmq.py")
    return archive
