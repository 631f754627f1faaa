"""The measured programs, each in a process of its own, and their figures from the operating system."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gantrymq.demo.ports import free_port
from gantrymq.message.system_topics import AUTO_CREATE
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import encode_request
from gantrymq.protocol.headers.nameserver import GetRoute

START_LIMIT_S = 90.0


@dataclass(frozen=True, slots=True)
class Running:
    """A running program: its address, the time until it answered there, its process id."""

    name_server: str
    pid: int
    start_s: float
    broker: str = ""
    """``ip:port`` of its broker."""

    def rss_mb(self) -> float:
        """The current resident memory, in MiB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def anonymous_mb(self) -> float:
        """The resident memory that is not backed by files, in MiB. Mapped files belong to the page cache."""
        found = re.search(r"RssAnon:\s*(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0

    def cpu_s(self) -> float:
        """The processor seconds used so far by all its threads."""
        return cpu_s(self.pid)

    def cpu_exact_s(self) -> float:
        """The processor seconds of the threads that are still running, with nanosecond resolution."""
        threads = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def cpu_s(pid: int) -> float:
    """The processor seconds used so far by all threads of a process, including those that have ended."""
    return parse_cpu_s(Path(f"/proc/{pid}/stat").read_text())


def parse_cpu_s(stat: str) -> float:
    """Read the text of /proc/PID/stat. The name of a program may contain spaces and brackets."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def family_cpu_s() -> float:
    """The processor seconds used so far by this process and all that it started, directly or not: for what happens
    between two calls. Those that have ended count where their parents waited for them."""
    stats: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    family, found = {os.getpid()}, 1
    while found:
        new = {pid for pid, fields in stats.items() if int(fields[1]) in family} - family
        family |= new
        found = len(new)
    ticks = sum(int(tick) for pid in family if pid in stats for tick in stats[pid][11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def paused(running: Running) -> Iterator[None]:
    """Stop ``running`` for the time of the block, so that its idle work does not disturb the measurement of another."""
    os.kill(running.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(running.pid, signal.SIGCONT)


@contextlib.contextmanager
def server(store: Path, flush: str, log: Path, config: Path | None = None) -> Iterator[Running]:
    """``gantry server`` on free ports with its store in ``store``; ``config``: a broker.conf."""
    name_port, broker_port = free_port(), free_port()
    command = [
        *(sys.executable, "-m", "gantrymq.cli.main", "server", "--store", str(store), "--flush", flush),
        *("--namesrv-port", str(name_port), "--listen-port", str(broker_port)),
        *(("--config", str(config)) if config else ()),
    ]
    with _process(command, name_port, broker_port, log) as running:
        yield running


@contextlib.contextmanager
def bare_peer(log: Path) -> Iterator[Running]:
    """A process that answers every send at once and stores nothing: its rates are the limit of client and network."""
    port = free_port()
    with _process([sys.executable, "-m", "benchmarks.bare_peer", str(port)], port, port, log) as running:
        yield running


@contextlib.contextmanager
def _process(command: list[str], name_port: int, broker_port: int, log: Path) -> Iterator[Running]:
    started = time.monotonic()
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        for port in (name_port, broker_port):
            _wait_for(port, process, started, log)
        await_route(name_port, process, started, log)
        yield Running(f"127.0.0.1:{name_port}", process.pid, time.monotonic() - started, f"127.0.0.1:{broker_port}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], started: float, log: Path) -> None:
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        _pause(process, started, log)


def await_route(
    port: int, process: subprocess.Popen[bytes], started: float, log: Path, expect: bytes | None = b'"code":0'
) -> None:
    """Wait until the name server knows the broker, because only then can a client send. ``expect`` None: until the name
    server answers."""
    question = encode_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, 1, GetRoute(topic=AUTO_CREATE))
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as peer:
            peer.sendall(question)
            answer = peer.recv(65536)
            if answer and (expect is None or expect in answer):
                return
        _pause(process, started, log)


def _pause(process: subprocess.Popen[bytes], started: float, log: Path) -> None:
    if process.poll() is not None or time.monotonic() - started > START_LIMIT_S:
        raise SystemExit(f"the program under measurement did not start; its output:\n{log.read_text()[-2000:]}")
    time.sleep(0.005)
