"""Metrics of how far consumer groups are behind: messages, and the age of the oldest one.

A queue of a group has two positions: how far the group has got messages, and how far it has consumed them.

    |...... consumed ......|...... in flight ......|...... ready ......|
                           committed               pulled              end of the queue
                           |.................. lag ..................|

A pop commits at once, so messages that are invisible lie before the committed offset, and count as in flight.
Source: ConsumerLagCalculator, BrokerMetricsConstant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from gantrymq.broker.metrics.labels import BY_TOPIC_AND_GROUP, topic_and_group
from gantrymq.broker.registries.registries import Registries
from gantrymq.message.system_topics import TRANSACTION_TOPICS, normal_topic, pop_retry_topic
from gantrymq.observability.metrics import Metric, MetricKind, Metrics
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore

LAG: Final[Metric] = Metric(
    "rocketmq_consumer_lag_messages", MetricKind.GAUGE, "messages", BY_TOPIC_AND_GROUP,
    "Messages of a topic that the group has not consumed yet: those that are ready and those in flight.",
)  # fmt: skip
READY: Final[Metric] = Metric(
    "rocketmq_consumer_ready_messages", MetricKind.GAUGE, "messages", BY_TOPIC_AND_GROUP,
    "Messages of a topic that the group has not got yet.",
)  # fmt: skip
IN_FLIGHT: Final[Metric] = Metric(
    "rocketmq_consumer_inflight_messages", MetricKind.GAUGE, "messages", BY_TOPIC_AND_GROUP,
    "Messages of a topic that the group has got and has not consumed yet.",
)  # fmt: skip
LAG_LATENCY: Final[Metric] = Metric(
    "rocketmq_consumer_lag_latency_milliseconds", MetricKind.GAUGE, "milliseconds", BY_TOPIC_AND_GROUP,
    "Age of the oldest message that the group has not consumed yet; 0 when there is none.",
)  # fmt: skip
QUEUEING_LATENCY: Final[Metric] = Metric(
    "rocketmq_consumer_queueing_latency_milliseconds", MetricKind.GAUGE, "milliseconds", BY_TOPIC_AND_GROUP,
    "Age of the oldest message that the group has not got yet; 0 when there is none.",
)  # fmt: skip
Place: TypeAlias = tuple[str, str, int]
"""Topic (a retry topic of POP, too), group, queue."""


@dataclass(frozen=True, slots=True)
class Invisible:
    """Messages of one queue that a group has popped, and that are neither acknowledged nor visible again."""

    messages: int
    first: int
    """The smallest of their queue offsets."""


NONE: Final = Invisible(0, -1)
InvisibleOf: TypeAlias = Callable[[], Mapping[Place, Invisible]]
Figures: TypeAlias = tuple[int, int, int, int]
"""Messages that are ready and in flight, and the ages (ms) of the oldest one not consumed and not got."""
NOTHING: Final[Figures] = (0, 0, 0, 0)
QUEUES_AT_ONCE: Final = 256
"""Queues of one step of a walk."""
Row: TypeAlias = tuple[tuple[str, ...], tuple[int, ...]]


def declare_lag(
    metrics: Metrics, store: MessageStore, registries: Registries, clock: Clock, invisible: InvisibleOf
) -> None:  # fmt: skip
    """Declare the metrics of this module."""
    lags = Lags(store, registries, clock, invisible)
    metrics.declare_table((LAG, READY, IN_FLIGHT, LAG_LATENCY, QUEUEING_LATENCY), lags.rows)


class Lags:
    """How far all groups are. It remembers store times from one walk to the next, so each reader has its own."""

    def __init__(self, store: MessageStore, registries: Registries, clock: Clock, invisible: InvisibleOf) -> None:
        self._store = store
        self._topics = registries.topics
        self._consumers = registries.consumers
        self._offsets = registries.offsets
        self._clock = clock
        self._invisible = invisible
        self._times: dict[tuple[str, int, int], int] = {}
        """Topic, queue and offset to the store time (ms) that the last walk looked up: a group that stands still costs
        no read of the log."""

    def rows(self) -> Iterator[Row]:
        """Of every group and topic, as ``Progress`` counts."""
        found: dict[tuple[str, ...], tuple[int, int, int, int]] = {}
        for place in self.places():
            if place is not None:
                group, name, figures = place
                labels = topic_and_group(self._topics, name, group)
                # Apache's broker shows a retry topic of POP under the name of the topic, with is_retry.
                row: tuple[str, ...] = (normal_topic(name, group), *labels[1:])
                found[row] = _together(found.get(row, NOTHING), figures)
        for key, figures in found.items():
            yield key, (figures[0] + figures[1], *figures)

    def places(self) -> Iterator[tuple[str, str, Figures] | None]:
        """Group, topic and figures of everything that is read, in small steps: None is a step without a result."""
        invisible, known = self._invisible(), self._times
        self._times = {}
        for group, name in dict.fromkeys(self._read_topics()):
            topic = self._topics.get(name)
            if topic is None or not self._reads(group, normal_topic(name, group)):
                yield None
                continue
            figures = NOTHING
            for queue_id in range(topic.read_queue_nums):
                popped = invisible.get((name, group, queue_id), NONE)
                figures = _together(figures, self._queue(group, name, queue_id, popped, known))
                if queue_id % QUEUES_AT_ONCE == QUEUES_AT_ONCE - 1:
                    yield None
            yield group, name, figures

    def _read_topics(self) -> Iterator[tuple[str, str]]:
        """(group, topic) of all offsets, and of the retry topics of POP, which have none before they are read. Offsets
        on the topics of transactions are notes for Apache's brokers.
        """
        for group, name in self._offsets.pairs():
            if name not in TRANSACTION_TOPICS:
                yield group, name
                yield group, pop_retry_topic(name, group)
                yield group, pop_retry_topic(name, group, v2=True)

    def _reads(self, group: str, topic: str) -> bool:
        """False for a topic that a group which is online has given up."""
        online = self._consumers.get(group)
        return online is None or not online.subscriptions or topic in online.subscriptions

    def _queue(
        self, group: str, topic: str, queue_id: int, popped: Invisible, known: dict[tuple[str, int, int], int]
    ) -> Figures:
        """Of one queue."""
        first, end = self._store.queue_range(topic, queue_id)
        done = self._offsets.get(group, topic, queue_id) or 0
        got = max(done, min(end, self._offsets.pulled(group, topic, queue_id)))
        unconsumed = min(done, popped.first) if popped.messages else done
        return (
            max(0, end - got),
            got - done + popped.messages,
            self._age(topic, queue_id, max(first, unconsumed), end, known),
            self._age(topic, queue_id, max(first, got), end, known),
        )

    def _age(self, topic: str, queue_id: int, offset: int, end: int, known: dict[tuple[str, int, int], int]) -> int:
        """ms since a message was stored; 0 for one that is not there."""
        if offset >= end:
            return 0
        place = topic, queue_id, offset
        stored = known.get(place)
        if stored is None:
            stored = self._store.store_time(topic, queue_id, offset)
        if stored is None:
            return 0
        self._times[place] = stored
        return max(0, self._clock.wall_ms() - stored)


def _together(one: Figures, other: Figures) -> Figures:
    """Of several queues: messages add up, and the oldest one counts."""
    return one[0] + other[0], one[1] + other[1], max(one[2], other[2]), max(one[3], other[3])
