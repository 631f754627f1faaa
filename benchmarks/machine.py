"""The machine of a measurement: its processors, their idle time, and figures to compare machines.

The ratio of two brokers depends on the machine, so a report describes the machine and its speed at that time.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Setup = Literal["shared", "pinned"]
SETUPS: Final[tuple[Setup, ...]] = ("shared", "pinned")
CORES: Final = 2
"""The number of cores that are used, even on a machine with more, because comparisons need the same number
everywhere."""
CALIBRATION_S: Final = 0.5
LOOP_ROUNDS: Final = 20_000
"""Rounds of the loop between two readings of the clock."""
ECHO: Final = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as peer:
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := peer.recv(65536):
        peer.sendall(data)
"""
MESSAGE: Final = b"x" * 128


@dataclass(frozen=True, slots=True)
class Placement:
    """The cores on which the broker runs, and those on which the client runs."""

    broker: frozenset[int]
    client: frozenset[int]

    @property
    def cores(self) -> frozenset[int]:
        return self.broker | self.client


def placement(setup: Setup, allowed: set[int]) -> Placement | None:
    """The cores of a setup, chosen from those that this process may use; None when there are too few."""
    cores = sorted(allowed)[:CORES]
    if setup == "shared":
        return Placement(frozenset(cores), frozenset(cores))
    if len(cores) < CORES:
        return None
    return Placement(frozenset(cores[:1]), frozenset(cores[1:]))


@contextlib.contextmanager
def started_on(cores: frozenset[int]) -> Iterator[None]:
    """Processes that are started in the block run only on ``cores``, with all their threads, as with ``taskset``.

    A process inherits the cores of the thread that starts it, so this thread moves to these cores for the block.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True, slots=True)
class Ticks:
    """The work and idle time of cores since the start of the machine, in ticks of the kernel."""

    idle: int
    total: int
    stolen: int = 0
    """The time in which a core had work, and its host gave it to another virtual machine."""


def parse_ticks(stat: str, cores: frozenset[int]) -> Ticks:
    """``stat``: the text of /proc/stat. A core that only waits for a disk (iowait) counts as idle."""
    idle = total = stolen = 0
    for core, figures in re.findall(r"^cpu(\d+) (.*)$", stat, re.MULTILINE):
        if int(core) in cores:
            # user nice system idle iowait irq softirq steal; the time of guests is included in user and nice
            spent = [int(figure) for figure in figures.split()[:8]]
            idle += spent[3] + spent[4]
            total += sum(spent)
            stolen += spent[7]
    return Ticks(idle, total, stolen)


def ticks(cores: frozenset[int]) -> Ticks:
    return parse_ticks(Path("/proc/stat").read_text(), cores)


def idle_share(before: Ticks, after: Ticks) -> float:
    """The share of the time in which these cores were idle, from 0 to 1."""
    total = after.total - before.total
    # The kernel may decrease iowait later.
    return min(1.0, max(0.0, (after.idle - before.idle) / total)) if total > 0 else 0.0


def stolen_share(before: Ticks, after: Ticks) -> float:
    """The share of the time that other virtual machines had, from 0 to 1. Figures of such a time say little."""
    total = after.total - before.total
    return min(1.0, max(0.0, (after.stolen - before.stolen) / total)) if total > 0 else 0.0


def parse_cpu_name(cpuinfo: str) -> str:
    """The name of the processor. ``cpuinfo``: the text of /proc/cpuinfo."""
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else "a processor without a name"


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of the machine at one moment."""

    loop_million: float
    """Million rounds of an empty Python loop per second."""
    round_trips: float
    """Round trips per second of 128 B to another process and back, by TCP on the loopback device."""

    def __str__(self) -> str:
        return f"{self.loop_million:.1f} million loop rounds/s, {self.round_trips:,.0f} loopback round trips/s"


def calibrate(seconds: float = CALIBRATION_S) -> Speed:
    """Measure the speed of the machine, which takes about twice ``seconds``."""
    return Speed(_loop_rate(seconds) / 1e6, _round_trip_rate(seconds))


def _loop_rate(seconds: float) -> float:
    clock, rounds = time.perf_counter, 0
    started = clock()
    while (elapsed := clock() - started) < seconds:
        for _ in range(LOOP_ROUNDS):
            pass
        rounds += LOOP_ROUNDS
    return rounds / elapsed


def _round_trip_rate(seconds: float) -> float:
    clock, trips = time.perf_counter, 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        echo = subprocess.Popen([sys.executable, "-S", "-c", ECHO, str(server.getsockname()[1])])
        try:
            server.settimeout(30)
            peer, _ = server.accept()
            with peer:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                started = clock()
                while (elapsed := clock() - started) < seconds:
                    peer.sendall(MESSAGE)
                    left = len(MESSAGE)
                    while left:
                        left -= len(peer.recv(left))
                    trips += 1
        finally:
            echo.kill()
            echo.wait()
    return trips / elapsed


def description() -> dict[str, object]:
    """The name of the processor, and how many cores this process may use and the machine has."""
    return {
        "cpu": parse_cpu_name(Path("/proc/cpuinfo").read_text()),
        "nproc": len(os.sched_getaffinity(0)),
        "online": os.cpu_count() or 1,
    }
