"""Numbers of messages sent and read, by topic and by group, over a minute, an hour and a day.

They are read from the metrics of the broker. Every ten seconds these are copied; the content of a window is the
difference of two copies.
Source: BrokerStatsManager, StatsItem, StoreStatsService.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gantrymq.broker.metrics import messages
from gantrymq.message.stats import BrokerStatsData, BrokerStatsItem
from gantrymq.observability.metrics import Metric, Metrics
from gantrymq.runtime.clock import Clock

SAMPLE_SECONDS: Final = 10.0
TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE: Final = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS: Final = "GROUP_GET_NUMS"
GROUP_GET_SIZE: Final = "GROUP_GET_SIZE"
SNDBCK_PUT_NUMS: Final = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS: Final = "BROKER_PUT_NUMS"
BROKER_GET_NUMS: Final = "BROKER_GET_NUMS"
FOUND: Final = "pulls that found something"
MISSED: Final = "pulls that found nothing"

Key = tuple[str, str]
"""Name of a statistic, and what it is about: a topic, ``topic@group``, or the cluster."""
Amount = tuple[int, int]
"""A sum, and how many times something was added."""


class About(enum.Enum):
    """What the values of a statistic are summed up for."""

    TOPIC = enum.auto()
    TOPIC_AND_GROUP = enum.auto()
    CLUSTER = enum.auto()
    BROKER = enum.auto()


@dataclass(frozen=True, slots=True)
class Source:
    """The metrics that a statistic is read from."""

    sum: Metric
    times: Metric
    """How many times something was added to it."""
    about: About


SOURCES: Final = {
    TOPIC_PUT_NUMS: Source(messages.MESSAGES_IN, messages.MESSAGES_IN, About.TOPIC),
    TOPIC_PUT_SIZE: Source(messages.THROUGHPUT_IN, messages.MESSAGES_IN, About.TOPIC),
    GROUP_GET_NUMS: Source(messages.MESSAGES_OUT, messages.PULLS, About.TOPIC_AND_GROUP),
    GROUP_GET_SIZE: Source(messages.THROUGHPUT_OUT, messages.PULLS, About.TOPIC_AND_GROUP),
    SNDBCK_PUT_NUMS: Source(messages.SENT_BACK, messages.SENT_BACK, About.TOPIC_AND_GROUP),
    BROKER_PUT_NUMS: Source(messages.MESSAGES_IN, messages.MESSAGES_IN, About.CLUSTER),
    BROKER_GET_NUMS: Source(messages.MESSAGES_OUT, messages.PULLS, About.CLUSTER),
    FOUND: Source(messages.PULLS, messages.PULLS, About.BROKER),
    MISSED: Source(messages.EMPTY_PULLS, messages.EMPTY_PULLS, About.BROKER),
}


@dataclass(frozen=True, slots=True)
class Sample:
    """All counters at one moment."""

    at: float
    """Seconds by the monotonic clock."""
    values: Mapping[Key, Amount]


@dataclass(frozen=True, slots=True)
class Window:
    """How long a window is, in samples of ``every`` samples each."""

    every: int
    samples: int


MINUTE: Final = Window(1, 7)
HOUR: Final = Window(60, 7)
DAY: Final = Window(360, 25)


class Statistics:
    """Windows over the metrics of one broker. ``sample`` must be called every SAMPLE_SECONDS."""

    def __init__(self, cluster: str, clock: Clock, metrics: Metrics) -> None:
        self._cluster = cluster
        self._clock = clock
        self._metrics = metrics
        self._rounds = 0
        start = Sample(clock.monotonic(), {})
        self._samples = {window: deque([start], maxlen=window.samples) for window in (MINUTE, HOUR, DAY)}
        self._long = deque([start], maxlen=61)
        self._day = self._today()
        self.morning = (0, 0)
        """Messages put and got when the day began."""
        self.morning_before = (0, 0)

    # Sampling.

    def sample(self) -> None:
        """Note where the counters are."""
        now = self._now(*SOURCES)
        self._rounds += 1
        self._long.append(now)
        for window, samples in self._samples.items():
            if self._rounds % window.every == 0:
                samples.append(now)
        today = self._today()
        if today != self._day:
            self._day = today
            self.morning_before, self.morning = self.morning, self.totals()

    def _today(self) -> object:
        return datetime.fromtimestamp(self._clock.wall_ms() / 1000).date()

    def totals(self) -> tuple[int, int]:
        """Messages put and got since the broker started."""
        put, got = messages.MESSAGES_IN.name, messages.MESSAGES_OUT.name
        return int(self._metrics.total(put)), int(self._metrics.total(got))

    def _now(self, *names: str) -> Sample:
        """These statistics now."""
        values: dict[Key, Amount] = {}
        for name in names:
            source = SOURCES.get(name)
            if source is not None:
                self._add(name, source, values)
        return Sample(self._clock.monotonic(), values)

    def _add(self, name: str, source: Source, values: dict[Key, Amount]) -> None:
        sums = self._metrics.numbers(source.sum.name)
        times = sums if source.times is source.sum else self._metrics.numbers(source.times.name)
        if source.about is About.CLUSTER or source.about is About.BROKER:
            values[name, self._subject(source.about, ())] = (0, 0)  # even when nothing was counted yet
        for labels, value in sums.items():
            key = name, self._subject(source.about, labels)
            before, times_before = values.get(key, (0, 0))
            if times[labels]:
                values[key] = before + int(value), times_before + int(times[labels])

    def _subject(self, about: About, labels: tuple[str, ...]) -> str:
        if about is About.TOPIC:
            return labels[0]
        if about is About.TOPIC_AND_GROUP:
            return f"{labels[0]}@{labels[1]}"
        return self._cluster if about is About.CLUSTER else ""

    # Questions.

    def view(self, name: str, key: str) -> BrokerStatsData | None:
        """A statistic over a minute, an hour and a day; None when nothing was ever counted under that name."""
        now = self._now(name)
        if (name, key) not in now.values:
            return None
        minute, hour, day = (_difference(self._samples[window], now, (name, key)) for window in (MINUTE, HOUR, DAY))
        return BrokerStatsData(stats_minute=minute, stats_hour=hour, stats_day=day)

    def per_second(self, name: str, key: str) -> float:
        """Over the last minute; 0.0 when nothing was counted."""
        return _difference(self._samples[MINUTE], self._now(name), (name, key)).tps

    def rates(self, name: str) -> dict[str, float]:
        """The same of everything that a statistic is about, by its key: one look at the counters for all."""
        now = self._now(name)
        return {key: _difference(self._samples[MINUTE], now, (name, key)).tps for _, key in now.values}

    def got_per_second(self, topic: str, group: str) -> float:
        """Messages of a topic that a group gets."""
        return self.per_second(GROUP_GET_NUMS, f"{topic}@{group}")

    def broker_rates(self, name: str) -> str:
        """Per second over ten seconds, one minute and ten minutes, separated by blanks."""
        key = name, self._subject(SOURCES[name].about, ())
        now = self._now(name)
        rates: list[str] = []
        for seconds in (10, 60, 600):
            samples = [sample for sample in self._long if now.at - sample.at <= seconds + SAMPLE_SECONDS]
            rates.append(str(_difference(samples, now, key).tps if samples else 0.0))
        return " ".join(rates)


def _difference(samples: deque[Sample] | list[Sample], now: Sample, key: Key) -> BrokerStatsItem:
    """From the oldest sample, or from the last one without the statistic: so it begins with its first message."""
    first = samples[0]
    for sample in samples:
        if key in sample.values:
            break
        first = sample
    value, times = now.values.get(key, (0, 0))
    value_before, times_before = first.values.get(key, (0, 0))
    added, times_added = max(0, value - value_before), max(0, times - times_before)
    seconds = now.at - first.at
    return BrokerStatsItem(
        sum=added, tps=added / seconds if seconds > 0 else 0.0, avgpt=added / times_added if times_added else 0.0
    )
