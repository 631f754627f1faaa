"""Spark's own Kafka connector with a Kafka broker on this machine, where Maven can fetch them."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.interop import jars as interop

from benchmarks.apache import child
from gantrymq.demo.ports import free_port

KAFKA = "3.9.1"
SCALA = "2.13"
NEEDED = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
"""Jars of the connector that Spark does not have."""
OLDER = ("4.2.0",)
"""Versions of the connector that are tried where that of the installed Spark cannot be had."""
FETCH_SECONDS = 600
START_SECONDS = 60
TOPIC = "SparkBench"


class Unavailable(Exception):
    """The comparison is not possible here; the text says why."""


@dataclass(frozen=True, slots=True)
class KafkaJars:
    """What Maven fetched."""

    broker: Path
    connector: tuple[Path, ...]
    version: str
    """Of the connector."""


def fetch() -> KafkaJars:
    """The jars, fetched on the first call: the connector of the installed Spark, or else an older one. Raises
    Unavailable."""
    import pyspark

    problems = []
    for version in dict.fromkeys((pyspark.__version__, *OLDER)):
        name = f"spark-sql-kafka-{version}"
        try:
            broker = _fetched(f"kafka-{KAFKA}", f"org.apache.kafka:kafka_{SCALA}:{KAFKA}")
            connector = _fetched(name, f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{version}")
        except interop.NotHere as error:
            problems.append(str(error))
            continue
        found = tuple(sorted(jar for jar in connector.glob("*.jar") if jar.name.startswith(NEEDED)))
        return KafkaJars(broker, found, version)
    raise Unavailable(problems[0])


def _fetched(name: str, artefact: str) -> Path:
    where = interop.cache() / name
    with interop.alone(name):
        if not (where / "complete").exists():
            shutil.rmtree(where, ignore_errors=True)
            where.mkdir(parents=True)
            _fetch(where, *artefact.split(":"))
            (where / "complete").touch()
    return where


def _fetch(where: Path, group: str, artefact: str, version: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise interop.NotHere("no mvn on the PATH")
    pom = where / "pom.xml"
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>gantrymq.bench</groupId><artifactId>kafka</artifactId>"
        f"<version>1</version><dependencies><dependency><groupId>{group}</groupId><artifactId>{artefact}</artifactId>"
        f"<version>{version}</version></dependency></dependencies></project>\n"
    )
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(
            [*command, f"-DoutputDirectory={where}"],
            capture_output=True, text=True, check=False, timeout=FETCH_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        raise interop.NotHere(f"Maven did not fetch {artefact}:{version} within {FETCH_SECONDS} s") from late
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise interop.NotHere(f"Maven could not fetch {artefact}:{version}: {' '.join(lines[:1])[:200]}")


@contextlib.contextmanager
def broker(jars: KafkaJars, directory: Path) -> Iterator[str]:
    """A Kafka broker, which is its own controller; its address. Raises Unavailable."""
    directory.mkdir(parents=True)
    port, controller = free_port(), free_port()
    conf = directory / "server.properties"
    conf.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller}\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n"
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        f"log.dirs={directory / 'data'}\nnum.partitions=4\noffsets.topic.replication.factor=1\n"
    )
    try:
        java = interop.java()
    except interop.NotHere as error:
        raise Unavailable(str(error)) from error
    command = [java, "-Xms1g", "-Xmx1g", "-cp", f"{jars.broker}/*"]
    log = directory / "output.log"
    form = [*command, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(conf)]
    done = subprocess.run(form, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"Kafka's storage could not be made: {(done.stdout + done.stderr)[-300:]}")
    with child([*command, "kafka.Kafka", str(conf)], log) as process:
        deadline = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"Kafka's broker did not start: {log.read_text()[-300:]}")
            time.sleep(0.2)
        yield f"127.0.0.1:{port}"


def jars_or_none(tell: Callable[[str], None]) -> KafkaJars | None:
    """What ``fetch`` gives; None where that is not possible. ``tell`` gets a line for people."""
    try:
        found = fetch()
    except Unavailable as error:
        tell(f"Kafka: unavailable: {error}")
        return None
    tell(f"Kafka {KAFKA}, connector of Spark {found.version}")
    return found


@contextlib.contextmanager
def broker_or_none(jars: KafkaJars | None, directory: Path, tell: Callable[[str], None]) -> Iterator[str | None]:
    """The address of a Kafka broker; None where there is none."""
    with contextlib.ExitStack() as stack:
        try:
            address = None if jars is None else stack.enter_context(broker(jars, directory))
        except Unavailable as error:
            tell(f"Kafka: unavailable: {error}")
            address = None
        yield address


def fill(spark: Any, address: str, rows: int, body_bytes: int) -> None:
    """Write messages like those of our topic: body, a key, and three headers."""
    spark.range(0, rows, 1, 2).selectExpr(
        f"CAST(rpad('', {body_bytes}, 'x') AS BINARY) AS value", "CAST(concat('order-', id) AS BINARY) AS key",
        "array(named_struct('key', 'TAGS', 'value', CAST('vip' AS BINARY)), "
        "named_struct('key', 'UNIQ_KEY', 'value', CAST(lpad(hex(id), 32, '0') AS BINARY)), "
        "named_struct('key', 'WAIT', 'value', CAST('true' AS BINARY))) AS headers",
    ).write.format("kafka").options(**_options(address), topic=TOPIC).save()  # fmt: skip


def write_bodies(frame: Any, address: str, topic: str) -> None:
    """Kafka's sink with a frame of bodies."""
    frame.selectExpr("body AS value").write.format("kafka").options(**_options(address), topic=topic).save()


def _options(address: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": address}


def read(spark: Any, address: str, columns: str, *, headers: bool = False, topic: str = TOPIC) -> Any:
    """A frame of a topic as a batch."""
    reader = spark.read.format("kafka").options(
        **_options(address), subscribe=topic, includeHeaders=str(headers).lower()
    )
    return reader.load().selectExpr(*columns.split(","))


def stream(spark: Any, address: str, columns: str) -> Any:
    """The same as a stream from its beginning."""
    reader = spark.readStream.format("kafka").options(**_options(address), subscribe=TOPIC, startingOffsets="earliest")
    return reader.load().selectExpr(*columns.split(","))


def session_conf(jars: KafkaJars | None) -> dict[str, str]:
    """What a Spark session needs for the connector."""
    return {"spark.jars": ",".join(map(str, jars.connector))} if jars is not None else {}
