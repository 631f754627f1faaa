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
from gantrymq.message.message_types import DELAY, FIFO, NAMES, NORMAL, TRANSACTION

_WORDS: Final = {NORMAL: "plain", FIFO: "ordered (with __SHARDINGKEY)", DELAY: "delayed", TRANSACTION: "transactional"}
EVERY_KIND: Final = frozenset(_WORDS)
ACCEPTED: Final[Mapping[str, frozenset[int]]] = {
    "NORMAL": frozenset({NORMAL}),
    "FIFO": frozenset({FIFO, NORMAL}),
    "DELAY": frozenset({DELAY}),
    "TRANSACTION": frozenset({TRANSACTION}),
    "MIXED": EVERY_KIND,
    "UNSPECIFIED": EVERY_KIND,
}
"""By the type of a topic. A topic without a type accepts every kind, as Apache's broker does; so does UNSPECIFIED, of
which Apache's proxy accepts nothing. FIFO takes plain messages, too: Java's remoting client orders by the queue that
the sender chooses, and nothing in such a message says so."""


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
    return FIFO if properties.find(text, properties.SHARDING_KEY) else NORMAL


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
