"""The Spark session of a pipeline: on this machine, on a cluster, or through Spark Connect.

Whether somebody answers at a master is asked before. Spark itself tries one that is not there for a minute, and a
server of Spark Connect for ten.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from gantrymq.errors import ConfigError, Unreachable
from gantrymq.runtime.addresses import address_of, split_address
from gantrymq.spark.pipelines.describe.addresses import LIBRARIES, scheme_of
from gantrymq.spark.pipelines.job import Job, Run
from gantrymq.spark.pipelines.run.event_stream import STATE_CONF
from gantrymq.spark.pipelines.run.expressions import TRY_CONF
from gantrymq.spark.session.session import SHORT_JOBS, spark_session

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


def _of_s3() -> dict[str, str]:
    """What Spark's library for S3 takes from settings, and other programs from the environment."""
    names = {"AWS_ENDPOINT_URL": "endpoint", "AWS_REGION": "endpoint.region"}
    found = {f"spark.hadoop.fs.s3a.{key}": os.environ[name] for name, key in names.items() if name in os.environ}
    return {**found, "spark.hadoop.fs.s3a.path.style.access": "true"} if "AWS_ENDPOINT_URL" in os.environ else found


JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"
WITHOUT_MEMORY: Final = {JVM_OPTIONS: f"{SHORT_JOBS[JVM_OPTIONS]} -XX:+ExitOnOutOfMemoryError"}
"""A JVM whose heap is full ends, and with it the job, which can be run again. Otherwise only the part of Spark that met
the end of the heap is gone, and the others wait for it for ever."""


def _own(name: str, run: Run) -> SparkSession:
    return spark_session(
        name, master=run.master, driver_memory=run.driver_memory, python=run.python,
        warm_workers=run.warm_workers, conf={**WITHOUT_MEMORY, **STATE_CONF, **TRY_CONF, **_of_s3(), **run.spark},
    )  # fmt: skip


def _remote(run: Run) -> SparkSession:
    from pyspark.errors import PySparkImportError
    from pyspark.sql import SparkSession

    from gantrymq.spark.session.registration import register

    try:
        spark = SparkSession.builder.remote(run.master).getOrCreate()
    except (ImportError, PySparkImportError) as error:
        raise ConfigError(f"for {run.master}: pip install 'gantrymq[spark-connect]'") from error
    register(spark)
    _set(spark, {**ON_A_SERVER, **run.spark})
    return spark


def check_libraries(spark: SparkSession, job: Job) -> None:
    """Raise ConfigError when Spark has no library for the checkpoint's object store. A server of Spark Connect is not
    asked."""
    scheme = scheme_of(job.checkpoint)
    if scheme is None or job.run.is_remote:
        return
    name, package = LIBRARIES[scheme]
    java: Any = spark._jvm
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(name.replace(".", "/") + ".class") is None:
        version = java.org.apache.hadoop.util.VersionInfo.getVersion()
        of_hadoop = f":{version}" if package.startswith("org.apache.hadoop:") else ""
        raise ConfigError(
            f"checkpoint: Spark cannot open {job.checkpoint}, because the package {package}{of_hadoop} is missing. Add "
            f'it with run.spark: "spark.jars.packages" = "{package}{of_hadoop or ":VERSION"}", or give a path'
        )


def configure(spark: SparkSession, job: Job) -> None:
    """Set what a stream of the job needs, as far as a running session can change it."""
    _set(spark, {**STATE_CONF, **TRY_CONF, **job.run.spark})


def _set(spark: SparkSession, conf: Mapping[str, str]) -> None:
    for key, value in conf.items():
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)


CONNECT_TIMEOUT_S: Final = 5.0
STANDALONE, CONNECT = "spark://", "sc://"
DEFAULT_PORTS: Final = {STANDALONE: None, CONNECT: 15002}
EXAMPLES: Final = {STANDALONE: "spark://127.0.0.1:7077", CONNECT: "sc://127.0.0.1:15002"}
SERVERS: Final = {STANDALONE: "the master of the Standalone cluster", CONNECT: "the server of Spark Connect"}
_OTHERS: Final = re.compile(r"local(\[[^]]+\])?|local-cluster\[[^]]+\]|yarn|k8s://.+")


def check_master(master: str) -> None:
    """Raise ConfigError when Spark has no such master, and Unreachable when nobody listens at its address."""
    kind = next((one for one in EXAMPLES if master.startswith(one)), None)
    if kind is not None:
        check_answers(kind, master)
    elif not _OTHERS.fullmatch(master):
        known = ", ".join(["local[*]", *EXAMPLES.values(), "yarn", "k8s://127.0.0.1:6443"])
        raise ConfigError(f"{master!r} is no master of Spark; write for example {known}")


def check_answers(kind: str, master: str) -> None:
    """Raise Unreachable when no server listens there. A Standalone cluster has one or more, separated by ``,``."""
    refused: Unreachable | None = None
    for host, port in addresses(kind, master):
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            refused = Unreachable(address_of(host, port), f"{error.strerror or error}; start {SERVERS[kind]} there")
    if refused is not None:
        raise refused


def addresses(kind: str, master: str) -> list[tuple[str, int]]:
    """The hosts and ports in a master of this kind. Raises ConfigError when it has none."""
    servers = re.split(r"[/;?]", master.removeprefix(kind), maxsplit=1)[0]
    found = []
    for server in servers.split(","):
        default = DEFAULT_PORTS[kind]
        without_port = ":" not in server or server.endswith("]")
        try:
            host, port = split_address(address_of(server, default) if without_port and default is not None else server)
        except ValueError:
            host, port = "", 0
        if not port:
            raise ConfigError(f"the master is {master!r}; write it as {EXAMPLES[kind]}")
        found.append((host, port))
    return found
