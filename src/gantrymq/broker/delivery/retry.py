"""What happens to a message that could not be consumed: it is delivered again later, or becomes a dead letter. Pure.

Source: AbstractSendMessageProcessor.consumerSendMsgBack; docs/protocol.md#retries-and-dead-letters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gantrymq.message import properties, system_topics
from gantrymq.message.message import StoredMessage

FIRST_RETRY_LEVEL: Final = 3
"""Delay level of the first retry, 10 s; each further one is a level longer."""
_REPLACED: Final = frozenset({properties.DELAY, properties.WAIT})


@dataclass(frozen=True, slots=True)
class Retry:
    """Where a message goes next. ``delay_level`` 0: at once."""

    topic: str
    queue_id: int
    delay_level: int
    properties_text: str
    reconsume_times: int


def plan_retry(
    message: StoredMessage,
    text: str,
    group: str,
    wanted_level: int,
    max_times: int,
    retry_queue_id: int,
    message_id: str,
) -> Retry:
    """``text``: the message's properties without what only a broker sets. ``wanted_level``: 0 lets us choose, below
    0 asks for the dead letters. ``message_id``: the offset message id of ``message``.
    """
    dead = message.reconsume_times >= max_times or wanted_level < 0
    if dead:
        topic, queue_id, level = system_topics.dead_letter_topic(group), 0, 0
    else:
        level = wanted_level or FIRST_RETRY_LEVEL + message.reconsume_times
        topic, queue_id = system_topics.retry_topic(group), retry_queue_id
    text = properties.without(text, _REPLACED)
    if properties.find(text, properties.RETRY_TOPIC) is None:
        text = properties.append(text, f"{properties.RETRY_TOPIC}\x01{message.topic}\x02")
    if properties.find(text, properties.ORIGIN_MESSAGE_ID) is None:
        text = properties.append(text, f"{properties.ORIGIN_MESSAGE_ID}\x01{message_id}\x02")
    text = properties.append(text, f"{properties.WAIT}\x01false\x02{properties.DELAY}\x01{level}\x02")
    return Retry(topic, queue_id, level, text, message.reconsume_times + 1)
