"""What happens to a popped message that was not acknowledged in time: it is delivered again, or becomes a dead letter.
Pure.

Apache's broker brings such a message back for ever and leaves it to the client to give up. The client's POP mode then
silently acknowledges a message that came too often, and the message is lost. Our broker makes a dead letter of it
after the group's ``retryMaxTimes``, at the moment at which it would have come back once more than that.

Source: PopReviveService.reviveRetry; docs/protocol.md#retries-and-dead-letters for dead letters.
"""

from __future__ import annotations

from dataclasses import dataclass

from gantrymq.broker.pop.check_point import CheckPoint
from gantrymq.message import properties, system_topics
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import pop_retry_topic


@dataclass(frozen=True, slots=True)
class Revival:
    """Where the message goes, and as what."""

    topic: str
    properties_text: str
    reconsume_times: int
    dead: bool


def plan_revival(message: StoredMessage, point: CheckPoint, max_times: int, message_id: str, *, v2: bool) -> Revival:
    """``max_times``: repetitions the group allows. ``message_id``: offset message id. ``v2``: naming of the topic."""
    if not point.suspend and message.reconsume_times >= max_times:
        return _dead_letter(message, point, message_id)
    topic = point.topic
    if not topic.startswith(system_topics.RETRY_PREFIX):
        topic = pop_retry_topic(topic, point.group, v2=v2)
    text = message.properties_text
    if message.reconsume_times == 0 or properties.find(text, properties.FIRST_POP_TIME) is None:
        text = properties.without(text, frozenset({properties.FIRST_POP_TIME}))
        text = properties.append(text, f"{properties.FIRST_POP_TIME}\x01{point.pop_time}\x02")
    return Revival(topic, text, message.reconsume_times + (not point.suspend), dead=False)


def topics_of_copies(topic: str, group: str) -> tuple[str, ...]:
    """Where a message of ``topic`` can be that came back to ``group``, or that the group gave up."""
    dead = system_topics.dead_letter_topic(group)
    if topic.startswith(system_topics.RETRY_PREFIX):
        return topic, dead
    return pop_retry_topic(topic, group), pop_retry_topic(topic, group, v2=True), dead


def _dead_letter(message: StoredMessage, point: CheckPoint, message_id: str) -> Revival:
    text = message.properties_text
    origin = system_topics.normal_topic(point.topic, point.group)
    for name, value in (
        (properties.RETRY_TOPIC, origin),
        (properties.ORIGIN_MESSAGE_ID, message_id),
        (properties.DEAD_LETTER_ORIGIN_TOPIC, origin),
        (properties.DEAD_LETTER_ORIGIN_MESSAGE_ID, message_id),
    ):
        if properties.find(text, name) is None:
            text = properties.append(text, f"{name}\x01{value}\x02")
    return Revival(
        system_topics.dead_letter_topic(point.group), text, message.reconsume_times + 1, dead=True
    )  # fmt: skip
