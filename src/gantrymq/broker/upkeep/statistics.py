"""Numbers of messages sent and read, by topic and by group, over a minute, an hour and a day.

Counting costs almost nothing: the number of stored messages follows from the queues, and a pull is one addition for
all its messages. Every ten seconds all counters are copied; the content of a window is the difference of two copies.
Source: BrokerStatsManager, StatsItem, StoreStatsService.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gantrymq.protocol.bodies.stats import BrokerStatsData, BrokerStatsItem
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
Put = Mapping[str, tuple[int, int]]
"""Topic to messages and bytes that were put since the broker started."""


@dataclass(slots=True)
class Got:
    """What a group got of a topic."""

    messages: int = 0
    size: int = 0
    """bytes"""
    pulls: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """All counters at one moment."""

    at: float
    """Seconds by the monotonic clock."""
    values: Mapping[Key, tuple[int, int]]
    """(sum, how many times something was added)"""


@dataclass(frozen=True, slots=True)
class Window:
    """How long a window is, in samples of ``every`` samples each."""

    every: int
    samples: int


MINUTE: Final = Window(1, 7)
HOUR: Final = Window(60, 7)
DAY: Final = Window(360, 25)


class Statistics:
    """Counters of one broker. ``sample`` must be called every SAMPLE_SECONDS."""

    def __init__(self, cluster: str, clock: Clock, put: Callable[[], Put]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._put = put
        self._got: dict[tuple[str, str], Got] = {}
        self._sent_back: dict[tuple[str, str], int] = {}
        self.missed = 0
        """Pulls that found nothing."""
        self._rounds = 0
        start = Sample(clock.monotonic(), {})
        self._samples = {window: deque([start], maxlen=window.samples) for window in (MINUTE, HOUR, DAY)}
        self._long = deque([start], maxlen=61)
        self._day = self._today()
        self.morning = (0, 0)
        """Messages put and got when the day began."""
        self.morning_before = (0, 0)

    # Counting.

    def got(self, topic: str, group: str, messages: int, size: int) -> None:
        """A pull was answered with messages."""
        counter = self._got.get((topic, group))
        if counter is None:
            counter = self._got[topic, group] = Got()
        counter.messages += messages
        counter.size += size
        counter.pulls += 1

    def sent_back(self, topic: str, group: str) -> None:
        """A consumer could not consume a message."""
        self._sent_back[topic, group] = self._sent_back.get((topic, group), 0) + 1

    def forget_topic(self, topic: str) -> None:
        self._got = {key: counter for key, counter in self._got.items() if key[0] != topic}
        self._sent_back = {key: times for key, times in self._sent_back.items() if key[0] != topic}

    # Sampling.

    def sample(self) -> None:
        """Note where the counters are."""
        now = self._now()
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
        put = sum(messages for messages, _ in self._put().values())
        return put, sum(counter.messages for counter in self._got.values())

    def _now(self) -> Sample:
        values: dict[Key, tuple[int, int]] = {}
        total = 0
        for topic, (messages, size) in self._put().items():
            if messages:
                values[TOPIC_PUT_NUMS, topic] = (messages, messages)
                values[TOPIC_PUT_SIZE, topic] = (size, messages)
                total += messages
        got = pulls = 0
        for (topic, group), counter in self._got.items():
            key = f"{topic}@{group}"
            values[GROUP_GET_NUMS, key] = (counter.messages, counter.pulls)
            values[GROUP_GET_SIZE, key] = (counter.size, counter.pulls)
            got += counter.messages
            pulls += counter.pulls
        for (topic, group), times in self._sent_back.items():
            values[SNDBCK_PUT_NUMS, f"{topic}@{group}"] = (times, times)
        values[BROKER_PUT_NUMS, self._cluster] = (total, total)
        values[BROKER_GET_NUMS, self._cluster] = (got, pulls)
        values[FOUND, ""] = (pulls, pulls)
        values[MISSED, ""] = (self.missed, self.missed)
        return Sample(self._clock.monotonic(), values)

    # Questions.

    def view(self, name: str, key: str) -> BrokerStatsData | None:
        """A statistic over a minute, an hour and a day; None when nothing was ever counted under that name."""
        now = self._now()
        if (name, key) not in now.values:
            return None
        minute, hour, day = (_difference(self._samples[window], now, (name, key)) for window in (MINUTE, HOUR, DAY))
        return BrokerStatsData(stats_minute=minute, stats_hour=hour, stats_day=day)

    def per_second(self, name: str, key: str) -> float:
        """Over the last minute; 0.0 when nothing was counted."""
        return _difference(self._samples[MINUTE], self._now(), (name, key)).tps

    def got_per_second(self, topic: str, group: str) -> float:
        """Messages of a topic that a group gets."""
        return self.per_second(GROUP_GET_NUMS, f"{topic}@{group}") if (topic, group) in self._got else 0.0

    def broker_rates(self, name: str) -> str:
        """Per second over ten seconds, one minute and ten minutes, separated by blanks."""
        key = (name, self._cluster if name.startswith("BROKER") else "")
        now = self._now()
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
