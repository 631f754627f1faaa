from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import ConfigError
from gantrymq.observability.metrics import Family, Histogram, Metric, MetricKind, Metrics

SENT = Metric("sent_total", MetricKind.COUNTER, "messages", ("topic",), "Messages that were sent.")


def test_a_metric_is_read_when_somebody_asks() -> None:
    counts = {"A": 1}
    metrics = Metrics()
    metrics.declare(SENT, lambda: [((topic,), count) for topic, count in counts.items()])
    counts["A"] = 2
    counts["B"] = 5
    assert metrics.read("sent_total") == {("A",): 2, ("B",): 5}
    assert metrics.total("sent_total") == 7
    assert list(metrics.families()) == [Family(SENT, ((("A",), 2), (("B",), 5)))]


def test_metrics_of_a_table_are_read_in_one_walk() -> None:
    walks: list[int] = []
    metrics, size = Metrics(), Metric("size_bytes", MetricKind.GAUGE, "bytes", ("topic",), "Size.")

    def rows() -> list[tuple[tuple[str, ...], tuple[int, int]]]:
        walks.append(1)
        return [(("A",), (2, 20)), (("B",), (5, 50))]

    metrics.declare_table((SENT, size), rows)
    assert [(family.metric, dict(family.readings)) for family in metrics.families()] == [
        (SENT, {("A",): 2, ("B",): 5}), (size, {("A",): 20, ("B",): 50}),
    ]  # fmt: skip
    assert len(walks) == 1
    assert metrics.read("size_bytes") == {("A",): 20, ("B",): 50} and metrics.total("sent_total") == 7


def test_a_metric_may_be_measured_by_several_parts() -> None:
    metrics = Metrics()
    metrics.share(SENT, lambda: [(("A",), 1)])
    metrics.share(SENT, lambda: [(("B",), 2)])
    assert metrics.read("sent_total") == {("A",): 1, ("B",): 2}
    assert list(metrics.families()) == [Family(SENT, ((("A",), 1), (("B",), 2)))]
    with pytest.raises(ConfigError):
        metrics.declare(SENT, list)


def test_a_metric_is_declared_once() -> None:
    metrics = Metrics()
    metrics.declare(SENT, list)
    with pytest.raises(ConfigError, match="sent_total is declared twice"):
        metrics.declare(SENT, list)


def test_a_value_on_the_bound_of_a_bucket_is_in_it() -> None:
    histogram = Histogram((5, 60))
    for value in (0, 5, 5.1, 60, 61):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]


def test_a_value_may_be_counted_many_times() -> None:
    histogram = Histogram((5, 60))
    histogram.observe(4, 3)
    histogram.observe(10, 2)
    assert (histogram.counts, histogram.sum) == ([3, 2, 0], 32.0)


@given(st.lists(st.floats(0, 1e6)), st.sets(st.floats(0, 1e6), min_size=1).map(sorted))
def test_buckets_say_how_many_values_are_at_most_so_large(values: list[float], bounds: list[float]) -> None:
    histogram = Histogram(bounds)
    for value in values:
        histogram.observe(value)
    wanted = [(bound, sum(value <= bound for value in values)) for bound in [*bounds, float("inf")]]
    assert histogram.cumulative() == wanted
    assert histogram.sum == pytest.approx(sum(values))


@pytest.mark.parametrize("bounds", [(), (2, 1), (1, 1)])
def test_bounds_must_ascend(bounds: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="ascend"):
        Histogram(bounds)
