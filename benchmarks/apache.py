"""Runs Apache's programs as child processes: fetches the jars with Maven, starts the broker and the name server, and
starts the benchmark clients.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop import jars as interop

from benchmarks.processes import Running, await_route
from benchmarks.samples import Sample
from gantrymq.demo.ports import free_port

VERSION = "5.5.0"
JAVA_OPENS = [
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.nio", "java.lang", "sun.nio.ch", "jdk.internal.misc", "jdk.internal.ref")
    ),
]
BROKER_HEAP = ["-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g"]
"""Apache's own start script gives its broker 8 GiB. With less, the comparison of memory is in Apache's favour."""
CLIENT_HEAP = ["-Xms256m", "-Xmx512m"]
PATIENT = "-Dcom.rocketmq.remoting.client.connect.timeout=30000"
"""With two JVMs that have just started and a broker on two cores, the default of 3 s may be too short for the first
connection. A consumer whose first heartbeat fails for this reason does nothing for 30 s."""
SECONDS_PER_LINE = 10
"""The interval at which Apache's benchmark programs report."""


class NotPossible(Exception):
    """The comparison needs something that is not on this machine; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Jars:
    """The directories with Apache's programs and their dependencies."""

    server: Path
    example: Path | None = None
    """The benchmark programs; None when no row needs them."""


def jars(*, programs: bool = True) -> Jars:
    """The jars. On the first call Maven fetches them into the directory of the interop tests. Raises NotPossible.

    ``programs``: whether the benchmark programs are needed as well.
    """
    try:
        interop.check_jdk()
        server = interop.library(f"server-{VERSION}")
        return Jars(server, interop.library(f"example-{VERSION}") if programs else None)
    except interop.NotHere as error:
        raise NotPossible(f"{error} (the same holds for this comparison)") from error


def java_command(lib: Path, options: Sequence[str], *program: str) -> list[str]:
    """``program``: the main class and its arguments."""
    return [interop.java(), *options, *JAVA_OPENS, "-cp", f"{lib}/*", *program]


@contextlib.contextmanager
def child(
    command: Sequence[str], log: Path, home: Path | None = None, environment: Mapping[str, str | None] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, with its output in ``log``. It is ended when the block ends, in whatever way.

    ``environment``: variables to set or (None) to remove.
    """
    changes = {"NAMESRV_ADDR": None, **({"ROCKETMQ_HOME": str(home)} if home else {}), **(environment or {})}
    wanted = {name: value for name, value in {**os.environ, **changes}.items() if value is not None}
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=wanted, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def broker_conf(directory: Path, flush: str, name_server: str, port: int) -> Path:
    """The same settings for both brokers; everything else has its default."""
    settings = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": 0,
        "brokerIP1": "127.0.0.1",
        "listenPort": port,
        "namesrvAddr": name_server,
        "storePathRootDir": directory / "store",
        "storePathCommitLog": directory / "store" / "commitlog",
        "flushDiskType": f"{flush.upper()}_FLUSH",
        "autoCreateTopicEnable": "true",
    }
    path = directory / "broker.conf"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


@contextlib.contextmanager
def broker(lib: Jars, directory: Path, flush: str) -> Iterator[Running]:
    """Apache's name server and broker, each a JVM; ``Running`` describes the broker alone."""
    directory.mkdir(parents=True)
    home = directory / "home"
    home.mkdir()
    log = directory / "output.log"
    name_port, broker_port = free_port(), free_port()
    name_conf = directory / "namesrv.conf"
    name_conf.write_text(f"listenPort={name_port}\n")
    own = [f"-Duser.home={home}"]
    start = "org.apache.rocketmq.namesrv.NamesrvStartup"
    with child(java_command(lib.server, ["-Xmx256m", *own], start, "-c", str(name_conf)), log, home) as name_server:
        await_route(name_port, name_server, time.monotonic(), log, expect=None)
        conf = broker_conf(directory, flush, f"127.0.0.1:{name_port}", broker_port)
        started = time.monotonic()
        start = "org.apache.rocketmq.broker.BrokerStartup"
        with child(java_command(lib.server, [*BROKER_HEAP, *own], start, "-c", str(conf)), log, home) as process:
            await_route(name_port, process, started, log)
            start_s = time.monotonic() - started
            yield Running(f"127.0.0.1:{name_port}", process.pid, start_s, f"127.0.0.1:{broker_port}")


@dataclass(frozen=True, slots=True)
class Line:
    """The report of a benchmark program on its last ten seconds, and the sample that was taken at its end."""

    per_second: float
    average_ms: float
    max_ms: float
    failed: int
    sample: Sample


@dataclass(frozen=True, slots=True)
class Client:
    """A running benchmark program."""

    output: Path
    pid: int


_PROGRAMS = {"plain": "Producer", "transaction": "TransactionProducer", "consume": "Consumer"}
_FORMS = {
    "plain": re.compile(
        r"Send TPS:\s*(\d+).*?Max RT\(ms\):\s*(\d+).*?(?:Average|AVG) RT\(ms\):\s*([\d.]+|NaN)"
        r".*?Send Failed:\s*(\d+)(?:.*?Response Failed:\s*(\d+))?"
    ),
    "consume": re.compile(
        r"Consume TPS:\s*(\d+).*?AVG\(S2C\) RT\(ms\):\s*([\d.]+|NaN).*?MAX\(S2C\) RT\(ms\):\s*(\d+)"
        r".*?Consume Fail:\s*(\d+)"
    ),
}


def parse(kind: str, text: str) -> tuple[float, float, float, int] | None:
    """(per second, average ms, max ms, failed) of a line; None when the line is not a report."""
    found = _FORMS["consume" if kind == "consume" else "plain"].search(text)
    if found is None:
        return None
    if kind == "consume":
        return float(found[1]), float(found[2]), float(found[3]), int(found[4])
    return float(found[1]), float(found[3]), float(found[2]), int(found[4]) + int(found[5] or 0)


@contextlib.contextmanager
def client(
    lib: Jars, kind: str, running: Running, topic: str, size: int, threads: int, directory: Path, *, json: bool
) -> Iterator[Client]:
    """A running benchmark program of Apache's."""
    assert lib.example is not None
    program = ["org.apache.rocketmq.example.benchmark." + _PROGRAMS[kind], "-n", running.name_server, "-t", topic]
    program += ["-w", str(threads)] + (["-s", str(size)] if kind != "consume" else [])
    if json:
        program.insert(0, str(Path(__file__).parent / "java" / "JsonHeaders.java"))
    output = directory / f"client-{time.monotonic_ns()}.log"
    options = [*CLIENT_HEAP, PATIENT, f"-Duser.home={directory}", "-Drocketmq.serialize.type=ROCKETMQ"]
    with child(java_command(lib.example, options, *program), output, directory) as process:
        yield Client(output, process.pid)


def follow(kind: str, output: Path, sample: Callable[[], Sample], lines: int) -> list[Line]:
    """The next ``lines`` reports of a program, each with a sample. Raises NotPossible when it reports nothing."""
    found: list[Line] = []
    deadline = time.monotonic() + SECONDS_PER_LINE * lines + 60
    while len(found) < lines:
        reported = [parsed for text in output.read_text().splitlines() if (parsed := parse(kind, text)) is not None]
        for report in reported[len(found) :]:
            found.append(Line(*report, sample()))
        if time.monotonic() > deadline:
            raise NotPossible(f"the benchmark program reported nothing:\n{output.read_text()[-1500:]}")
        time.sleep(0.02)
    return found


def complaints(directory: Path, lines: int = 12) -> str:
    """The last warnings and errors that the Java clients of this directory logged."""
    found = []
    for log in sorted(directory.glob("logs/rocketmqlogs/rocketmq_client*.log")):
        found += [
            line for line in log.read_text(errors="replace").splitlines() if " WARN " in line or " ERROR " in line
        ]
    return "\n".join(found[-lines:]) or "its log has neither warnings nor errors"
