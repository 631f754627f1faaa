"""The model of benchmarks/scale.py, and its picture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import asdict

import pytest
from benchmarks.process_tree import descendants, descendants_cpu_s, ended_s
from benchmarks.scale import READ, Figures, Point, figures_of, loaded
from benchmarks.scale_model import Cluster, Costs, Planning, flows, forecast, line
from benchmarks.scale_plot import draw

COSTS = Costs(broker_us=2, python_us=3, jvm_us=1, wire_bytes=500)
NOTHING = Planning(0, 0)


@pytest.mark.parametrize(
    ("cluster", "rate", "limit"),
    [
        (Cluster(1, 64), 500_000, "broker"),
        (Cluster(4, 4), 1_000_000, "Python workers"),
        (Cluster(4, 64, nic_bytes=1e8), 800_000, "network"),
        (Cluster(4, 64, shared_cores=3), 500_000, "cores of the machine"),
    ],
)
def test_the_slowest_part_is_the_limit(cluster: Cluster, rate: float, limit: str) -> None:
    found = forecast(COSTS, NOTHING, cluster)
    assert (found.rows_per_second, found.limit) == (pytest.approx(rate), limit)
    assert min(flows(COSTS, cluster).values()) == pytest.approx(rate)
    assert forecast(COSTS, NOTHING, cluster, 0.5).rows_per_second == pytest.approx(rate / 2)


def test_planning_becomes_the_limit_with_many_queues() -> None:
    """64 brokers with 8 queues each: 0.1 s and 512 * 2 ms, beside 1,000,000 rows at 32,000,000/s."""
    found = forecast(COSTS, Planning(batch_ms=100, queue_ms=2), Cluster(64, 1000))
    assert found.limit == "driver"
    assert found.rows_per_second == pytest.approx(1_000_000 / (0.1 + 1.024 + 1 / 32))


def test_a_line_through_points() -> None:
    assert line([(0, 1), (1, 3), (2, 5)]) == pytest.approx((1, 2))


def figures() -> Figures:
    points = [
        Point(way, 1, tasks, 100_000 * tasks, 2, 3, 1, 0.5)
        for way in (READ, "write, at_least_once", "write, exactly_once")
        for tasks in (1, 2)
    ]
    return figures_of(points, 200, 400, {8: 1.0, 64: 8.0}, {8: 50.0, 64: 106.0})


def test_the_fit_finds_what_was_put_in() -> None:
    found = figures()
    assert found.costs[READ] == Costs(2, 3, 1, 400)
    assert (found.planning.batch_ms, found.planning.queue_ms) == pytest.approx((42, 1))
    assert loaded(json.dumps(asdict(found))) == found


def test_the_picture() -> None:
    found = figures()
    picture = ET.fromstring(draw(found.points, found.costs, found.planning, found.efficiency))
    texts = {element.text for element in picture.iter() if element.tag.endswith("text")}
    assert {"read: measured here, rows/s", "read: model, rows/s of a stream", "200,000", "1 broker", "2 tasks"} <= texts


def test_the_processes_that_a_process_has_started() -> None:
    assert descendants(1, {1: 0, 2: 1, 3: 2, 4: 0, 5: 4}) == {2, 3}
    work = "print(sum(range(3_000_000)), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", work], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert descendants_cpu_s(os.getpid()) > 0
        child.communicate(b"\n")


def test_the_processor_time_of_children_that_have_ended() -> None:
    """Their parent keeps it, in the fields cutime and cstime."""
    fields = [*(["0"] * 11), "100", "50", "700", "300", "0"]
    assert ended_s(f"1 (a ) name) {' '.join(fields)}") == 1000 / os.sysconf("SC_CLK_TCK")
