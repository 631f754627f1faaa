"""Metrics of messages that come in and go out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from gantrymq.broker.metrics.counters import Got, MessageCounters
from gantrymq.broker.metrics.labels import BY_TOPIC_AND_GROUP, flag, is_system_group, topic_and_group
from gantrymq.broker.registries.registries import Registries
from gantrymq.message.message_types import NAMES
from gantrymq.message.system_topics import DEAD_LETTER_PREFIX, RETRY_PREFIX, normal_topic
from gantrymq.observability.metrics import Metric, MetricKind, Metrics, Reading, Value, single
from gantrymq.store.message_store import MessageStore

_BY_TOPIC: Final = ("topic", "is_system", "message_type")

MESSAGES_IN: Final[Metric] = Metric(
    "rocketmq_messages_in_total", MetricKind.COUNTER, "messages", _BY_TOPIC,
    "Messages that became visible in a topic since the broker started.",
)  # fmt: skip
SIZE: Final[Metric] = Metric(
    "rocketmq_message_size", MetricKind.HISTOGRAM, "bytes", _BY_TOPIC,
    "Sizes in the log of the messages that became visible in a topic.",
)  # fmt: skip
THROUGHPUT_IN: Final[Metric] = Metric(
    "rocketmq_throughput_in_total", MetricKind.COUNTER, "bytes", _BY_TOPIC,
    "Size in the log of the messages that became visible in a topic.",
)  # fmt: skip
MESSAGES_OUT: Final[Metric] = Metric(
    "rocketmq_messages_out_total", MetricKind.COUNTER, "messages", BY_TOPIC_AND_GROUP,
    "Messages that a group got by pulling or popping.",
)  # fmt: skip
THROUGHPUT_OUT: Final[Metric] = Metric(
    "rocketmq_throughput_out_total", MetricKind.COUNTER, "bytes", BY_TOPIC_AND_GROUP,
    "Size of the messages that a group got.",
)  # fmt: skip
PULLS: Final[Metric] = Metric(
    "gantry_pulls_found_total", MetricKind.COUNTER, "requests", BY_TOPIC_AND_GROUP,
    "Pulls and pops that were answered with messages.",
)  # fmt: skip
EMPTY_PULLS: Final[Metric] = Metric(
    "gantry_pulls_missed_total", MetricKind.COUNTER, "requests", (),
    "Pulls that were answered without a message.",
)  # fmt: skip
SENT_BACK: Final[Metric] = Metric(
    "gantry_messages_sent_back_total", MetricKind.COUNTER, "messages", BY_TOPIC_AND_GROUP,
    "Messages that a consumer of the group could not consume and sent back, to get them again later.",
)  # fmt: skip
DEAD_LETTERS: Final[Metric] = Metric(
    "rocketmq_send_to_dlq_messages_total", MetricKind.COUNTER, "messages", ("topic", "consumer_group", "is_system"),
    "Messages of a topic that the group failed to consume too often; they are in its dead-letter queue.",
)  # fmt: skip
STORED_DEAD_LETTERS: Final[Metric] = Metric(
    "gantry_dead_letter_messages", MetricKind.GAUGE, "messages", ("consumer_group", "is_system"),
    "Messages in the dead-letter queue of the group, whenever they came; retention removes them.",
)  # fmt: skip


def declare_messages(
    metrics: Metrics, store: MessageStore, registries: Registries, counters: MessageCounters
) -> None:  # fmt: skip
    """Declare the metrics of this module."""
    read = _MessageReadings(store, registries, counters)
    metrics.declare_table((MESSAGES_IN, THROUGHPUT_IN, SIZE), read.arrived)
    metrics.declare(MESSAGES_OUT, lambda: read.delivered(lambda got: got.messages))
    metrics.declare(THROUGHPUT_OUT, lambda: read.delivered(lambda got: got.size))
    metrics.declare(PULLS, lambda: read.delivered(lambda got: got.pulls))
    metrics.declare(EMPTY_PULLS, single(lambda: counters.missed))
    metrics.declare(SENT_BACK, read.sent_back)
    metrics.declare(DEAD_LETTERS, read.dead_letters)
    metrics.declare(STORED_DEAD_LETTERS, read.waiting_dead_letters)


class _MessageReadings:
    def __init__(self, store: MessageStore, registries: Registries, counters: MessageCounters) -> None:
        self._store = store
        self._topics = registries.topics
        self._offsets = registries.offsets
        self._counters = counters

    def arrived(self) -> Iterator[tuple[tuple[str, ...], tuple[Value, ...]]]:
        """Messages, bytes and sizes by topic and type."""
        for (topic, kind), sizes in self._store.arrived().items():
            labels = topic, flag(self._topics.is_system(topic)), NAMES[kind]
            yield labels, (sum(sizes.counts), round(sizes.sum), sizes)

    def delivered(self, figure: Callable[[Got], int]) -> Iterator[Reading]:
        for (topic, group), got in self._counters.deliveries.items():
            yield topic_and_group(self._topics, topic, group), figure(got)

    def sent_back(self) -> Iterator[Reading]:
        for (topic, group), times in self._counters.returns.items():
            yield topic_and_group(self._topics, topic, group), times

    def dead_letters(self) -> Iterator[Reading]:
        """Of every group and topic from its first delivery on: a series that begins at 1 would have no increase."""
        read = {(topic, group) for group, topic in self._offsets.pairs()} | self._counters.deliveries.keys()
        own = {(normal_topic(topic, group), group) for topic, group in read}
        given_up = self._counters.given_up
        known = {place for place in own if not place[0].startswith(RETRY_PREFIX)} | given_up.keys()
        for topic, group in sorted(known):
            system = self._topics.is_system(topic) or is_system_group(group)
            yield (topic, group, flag(system)), given_up[topic, group]

    def waiting_dead_letters(self) -> Iterator[Reading]:
        for name in self._topics.names():
            if name.startswith(DEAD_LETTER_PREFIX):
                group = name.removeprefix(DEAD_LETTER_PREFIX)
                first, end = self._store.queue_range(name, 0)
                yield (group, flag(is_system_group(group))), end - first
