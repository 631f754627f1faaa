"""Which messages a topic with a message type accepts. Pure.

Apache's broker keeps the type of a topic and checks nothing; its proxy refuses what does not fit
(``enableTopicMessageTypeCheck``). Here the broker is what clients speak to, so the broker refuses. Source:
TopicMessageType, DefaultTopicMessageTypeValidator; the proxy's SendMessageActivity, which leaves out retry topics and
dead letters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.message import properties, system_topics
from gantrymq.message.message_types import DELAY, FIFO, LITE, NAMES, NORMAL, PRIORITY, TRANSACTION

_WORDS: Final = {
    NORMAL: "plain", FIFO: "ordered (with __SHARDINGKEY)", DELAY: "delayed", TRANSACTION: "transactional",
    PRIORITY: "sent with a priority", LITE: "sent to a lite topic",
}  # fmt: skip
EVERY_KIND: Final = frozenset(_WORDS) - {LITE}
"""What a topic without a type takes. Only a topic of type LITE has lite topics, so only it takes messages to them."""
ACCEPTED: Final[Mapping[str, frozenset[int]]] = {
    "NORMAL": frozenset({NORMAL}),
    "FIFO": frozenset({FIFO, NORMAL}),
    "DELAY": frozenset({DELAY}),
    "TRANSACTION": frozenset({TRANSACTION}),
    "PRIORITY": frozenset({PRIORITY, NORMAL}),
    "LITE": frozenset({LITE}),
    "MIXED": EVERY_KIND,
    "UNSPECIFIED": EVERY_KIND,
}
"""By the type of a topic. A topic without a type accepts every kind, as Apache's broker does; so does UNSPECIFIED, of
which Apache's proxy accepts nothing. FIFO takes plain messages, too: Java's remoting client orders by the queue that
the sender chooses, and nothing in such a message says so. PRIORITY takes them as Apache's broker does: a message
without a priority goes to any queue."""


def accepted(message_type: str | None, topic: str, *, checked: bool) -> frozenset[int] | None:
    """The kinds that a topic accepts; None: all. ``checked``: the setting of the broker."""
    derived = topic.startswith((system_topics.RETRY_PREFIX, system_topics.DEAD_LETTER_PREFIX))
    if not checked or message_type is None or derived:
        return None
    kinds = ACCEPTED.get(message_type, EVERY_KIND)
    return None if kinds == EVERY_KIND else kinds


def kind_of(text: str) -> int:
    """What a message with these properties is, as Apache's proxy reads those of a remoting client: a number of
    ``message.message_types``."""
    if properties.find(text, properties.TRANSACTION_PREPARED) == "true":
        return TRANSACTION
    if any((properties.find(text, name) or "0") != "0" for name in properties.DELAYS):
        return DELAY
    if properties.find(text, properties.SHARDING_KEY):
        return FIFO
    if properties.find(text, properties.PRIORITY):
        return PRIORITY
    return LITE if properties.find(text, properties.LITE_TOPIC) else NORMAL


def check_kind(kind: int, topic: str, kinds: frozenset[int]) -> None:
    """Raise Refused unless a topic that accepts ``kinds`` accepts this one. The sentence begins with Apache's words."""
    if kind not in kinds:
        name = NAMES[kind].upper()
        expected = next(topic_type for topic_type, those in ACCEPTED.items() if those == kinds)
        raise Refused(
            Refusal.MESSAGE_ILLEGAL,
            f"TopicMessageType validate failed, the expected type is {expected}, but actual type is {name}: "
            f"the topic {topic} takes no message that is {_WORDS[kind]}; send it to a topic of type {name} or "
            "MIXED, or to one without a type",
        )


def by_priority(text: str, queue_id: int, write_queues: int) -> tuple[str, int]:
    """The properties and the queue of a message, where its priority decides about them.

    The priority is the number of the queue, and the last queue takes all higher ones: this is how Apache's brokers keep
    it, so nothing else has to be stored. In a message of another kind a priority means nothing, and is taken off.
    ``queue_id``: where the message would go otherwise. Source: SendMessageProcessor.sendMessage of 5.4.
    """
    priority = properties.find(text, properties.PRIORITY)
    if priority is None or not (priority.isascii() and priority.isdecimal()):
        return text, queue_id
    if kind_of(text) != PRIORITY:
        return properties.without(text, _OF_PRIORITY), queue_id
    return text, max(0, min(int(priority), write_queues - 1))


_OF_PRIORITY: Final = frozenset({properties.PRIORITY})
