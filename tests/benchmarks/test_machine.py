"""What /proc says about processors, how a turn's figures come from it, and which cores a set-up uses."""

from __future__ import annotations

import os

from benchmarks.machine import (
    Ticks,
    calibrate,
    description,
    idle_share,
    parse_cpu_name,
    parse_ticks,
    placement,
    started_on,
    stolen_share,
)  # fmt: skip
from benchmarks.processes import parse_cpu_s
from benchmarks.samples import Sample, figures

STAT = """\
cpu  30 0 30 300 30 3 3 3 0 0
cpu0 10 0 10 100 10 1 1 1 5 0
cpu1 20 0 20 200 20 2 2 2 0 0
cpu10 1 1 1 1 1 1 1 1 1 1
intr 1 2 3
"""


def test_ticks_of_some_cores_are_added() -> None:
    assert parse_ticks(STAT, frozenset({0})) == Ticks(idle=110, total=133, stolen=1)
    assert parse_ticks(STAT, frozenset({0, 1})) == Ticks(idle=330, total=399, stolen=3)


def test_the_idle_share_lies_between_nothing_and_all() -> None:
    assert idle_share(Ticks(100, 1000), Ticks(150, 1200)) == 0.25
    assert idle_share(Ticks(100, 1000), Ticks(90, 1200)) == 0.0  # the kernel corrected iowait
    assert idle_share(Ticks(100, 1000), Ticks(100, 1000)) == 0.0


def test_the_time_of_other_virtual_machines_is_a_share_too() -> None:
    assert stolen_share(Ticks(0, 1000, 10), Ticks(0, 1200, 60)) == 0.25
    assert stolen_share(Ticks(0, 1000, 10), Ticks(0, 1000, 10)) == 0.0


def test_the_processor_has_a_name() -> None:
    assert parse_cpu_name("processor\t: 0\nmodel name\t: AMD EPYC\nflags: x\nmodel name\t: other") == "AMD EPYC"
    assert parse_cpu_name("processor\t: 0\n") == "a processor without a name"
    assert set(description()) == {"cpu", "nproc", "online"}


def test_processor_time_of_a_process_whose_name_has_brackets() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    fields = ["S", *["0"] * 10, str(3 * ticks), str(2 * ticks), "7", "7"]
    assert parse_cpu_s("42 (a (b) c) " + " ".join(fields)) == 5.0


def test_a_placement_uses_two_cores() -> None:
    shared, pinned = placement("shared", {3, 1, 5}), placement("pinned", {3, 1, 5})
    assert shared is not None and shared.broker == shared.client == shared.cores == {1, 3}
    assert pinned is not None and (pinned.broker, pinned.client) == ({1}, {3}) and pinned.cores == {1, 3}
    assert placement("pinned", {4}) is None


def test_the_cores_of_this_thread_come_back() -> None:
    before = os.sched_getaffinity(0)
    with started_on(frozenset({min(before)})):
        assert os.sched_getaffinity(0) == {min(before)}
    assert os.sched_getaffinity(0) == before


def test_figures_lie_between_two_samples() -> None:
    before = Sample(at=10.0, broker_cpu_s=1.0, client_cpu_s=5.0, ticks=Ticks(10, 100, 5))
    after = Sample(at=12.0, broker_cpu_s=2.0, client_cpu_s=8.0, ticks=Ticks(50, 300, 25))
    found = figures(before, after, 50_000, per_second=25_000, failed=2)
    assert (found.broker_cpu_us, found.client_cpu_us, found.idle, found.failed) == (20.0, 60.0, 0.2, 2)
    assert found.stolen == 0.1
    assert figures(before, after, 0, per_second=0).broker_cpu_us == 1e6


def test_the_machine_is_calibrated() -> None:
    speed = calibrate(0.02)
    assert speed.loop_million > 0 and speed.round_trips > 0
    assert "loopback round trips/s" in str(speed)
