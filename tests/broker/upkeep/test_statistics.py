"""Counters and their windows, in simulated time."""

from __future__ import annotations

import asyncio

from gantrymq.broker.metrics import messages
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.upkeep import statistics as names
from gantrymq.broker.upkeep.statistics import SAMPLE_SECONDS, Statistics
from gantrymq.observability.metrics import Metrics
from tests.support.sim_clock import SimClock


def metrics_of(put: dict[str, tuple[int, int]], counters: MessageCounters) -> Metrics:
    """The metrics that the statistics read."""
    metrics = Metrics()
    metrics.declare(
        messages.MESSAGES_IN, lambda: [((topic, "false", "normal"), count) for topic, (count, _) in put.items()]
    )
    metrics.declare(
        messages.THROUGHPUT_IN, lambda: [((topic, "false", "normal"), size) for topic, (_, size) in put.items()]
    )
    for metric, field in (
        (messages.MESSAGES_OUT, "messages"), (messages.THROUGHPUT_OUT, "size"), (messages.PULLS, "pulls"),
    ):  # fmt: skip
        metrics.declare(
            metric,
            lambda field=field: [  # type: ignore[misc]
                ((*key, "false", "false"), getattr(got, field)) for key, got in counters.deliveries.items()
            ],
        )
    metrics.declare(messages.EMPTY_PULLS, lambda: [((), counters.missed)])
    metrics.declare(
        messages.SENT_BACK, lambda: [((*key, "false", "false"), times) for key, times in counters.returns.items()]
    )
    return metrics


def test_windows_hold_what_happened_in_them() -> None:
    async def work() -> None:
        clock = SimClock()
        put = {"T": (0, 0)}
        counters = MessageCounters()
        statistics = Statistics("C", clock, metrics_of(put, counters))

        async def pass_by(seconds: float) -> None:
            for _ in range(round(seconds / SAMPLE_SECONDS)):
                await clock.advance(SAMPLE_SECONDS)
                statistics.sample()

        assert statistics.view(names.TOPIC_PUT_NUMS, "T") is None, "nothing yet"
        put["T"] = (60, 600)
        counters.got("T", "G", 30, 300)
        counters.got("T", "G", 30, 300)
        counters.sent_back("T", "G")
        await pass_by(10)
        found = statistics.view(names.TOPIC_PUT_NUMS, "T")
        assert found is not None and (found.stats_minute.sum, found.stats_minute.tps) == (60, 6.0)
        size = statistics.view(names.TOPIC_PUT_SIZE, "T")
        assert size is not None and (size.stats_minute.sum, size.stats_minute.avgpt) == (600, 10.0)
        got = statistics.view(names.GROUP_GET_NUMS, "T@G")
        assert got is not None and (got.stats_minute.sum, got.stats_minute.avgpt) == (60, 30.0)
        assert statistics.got_per_second("T", "G") == 6.0
        assert statistics.got_per_second("T", "Other") == 0.0
        assert statistics.view(names.SNDBCK_PUT_NUMS, "T@G") is not None
        assert statistics.broker_rates(names.BROKER_PUT_NUMS).split()[0] == "6.0"
        await pass_by(120)
        found = statistics.view(names.TOPIC_PUT_NUMS, "T")
        assert found is not None and (found.stats_minute.sum, found.stats_hour.sum, found.stats_day.sum) == (0, 60, 60)
        assert statistics.totals() == (60, 60)
        counters.forget_topic("T")
        assert statistics.view(names.GROUP_GET_NUMS, "T@G") is None

    asyncio.run(work())


def test_a_day_begins() -> None:
    async def work() -> None:
        clock = SimClock()
        put = {"T": (5, 50)}
        counters = MessageCounters()
        statistics = Statistics("C", clock, metrics_of(put, counters))
        await clock.advance(86_400)
        statistics.sample()
        assert statistics.morning == (5, 0)
        put["T"] = (9, 90)
        await clock.advance(86_400)
        statistics.sample()
        assert (statistics.morning_before, statistics.morning) == ((5, 0), (9, 0))

    asyncio.run(work())
