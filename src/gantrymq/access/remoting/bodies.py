"""Names that are not in an extension field: in the body of a request, or in a message that it names by its place.

Who names a message by its place could name any message. So the message decides which topic the request is about, and
an undecided one belongs to a topic that is open to nobody by a general policy (``judge.is_hidden``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from gantrymq.access.remoting.naming import Asked, Found, Unclear
from gantrymq.errors import GantryError
from gantrymq.message.system_topics import AUTO_CREATE, normal_topic
from gantrymq.message.transaction import OPERATOR_REMARK
from gantrymq.protocol.bodies.groups import GroupConfigList
from gantrymq.protocol.bodies.heartbeat import CheckClient, HeartbeatData
from gantrymq.protocol.bodies.lite import LiteSubscriptions
from gantrymq.protocol.bodies.locks import LockBatch
from gantrymq.protocol.bodies.pop import BatchAckRequest, QueryAssignment
from gantrymq.protocol.bodies.topics import TopicConfigList
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.files.request_modes import GroupRequestMode
from gantrymq.protocol.halves import decode_ends
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.protocol.message_ids import parse_offset_message_id

# Messages that are named by their place.


def _of_half(asked: Asked) -> Iterator[str]:
    """As the broker has it: not what the client says, and not the half topic (hole 22)."""
    header = asked.command.header(EndTransaction)
    topic = asked.places.topic_of_half(header.tran_state_table_offset, header.commit_log_offset) or header.topic
    if topic:
        yield topic


def _of_halves(asked: Asked) -> Iterator[str]:
    """Each topic once, however many half messages there are."""
    of_half = asked.places.topic_of_half
    for topic in dict.fromkeys(of_half(one.queue_offset, one.log_offset) for one in decode_ends(asked.command.body)):
        if topic:
            yield topic


def _of_parked(asked: Asked) -> Iterator[str]:
    topic = asked.places.real_topic_at(_offset_of(asked.fields.get("msgId", ""))) or asked.fields.get("topic")
    if not topic:
        raise Unclear("no message lies at the place that msgId names")
    yield topic


def _at_offset(asked: Asked) -> Iterable[str]:
    """Nothing is there: the request is answered so, to everybody who signs."""
    return asked.places.topics_at(_number(asked, "offset"))


def _at_message_id(asked: Asked) -> Iterator[str]:
    named = asked.fields.get("topic")
    if named:
        yield named
    message_id = asked.fields.get("msgId")
    yield from asked.places.topics_at(_offset_of(message_id)) if message_id else ()


HALF: Final = Found("of the half message", _of_half)
HALVES: Final = Found("of each half message", _of_halves)
PARKED: Final = Found("of the half message", _of_parked)
AT_OFFSET: Final = Found("of the message", _at_offset)
AT_MESSAGE_ID: Final = Found("of the message", _at_message_id)


def by_operator(asked: Asked) -> bool:
    """Whether a person decides in place of a program."""
    return (asked.command.remark or "").startswith(OPERATOR_REMARK)


# Bodies.


def _route(asked: Asked) -> Iterator[str]:
    """Who makes topics by their first message asks for the route of the template, which has no messages."""
    topic = asked.fields.get("topic", "")
    if topic != AUTO_CREATE:
        yield topic


def _lite_parents(asked: Asked) -> Iterator[str]:
    yield from dict.fromkeys(entry.topic for entry in LiteSubscriptions.decode(asked.command.body).subscription_set)


def _lite_groups(asked: Asked) -> Iterator[str]:
    yield from dict.fromkeys(entry.group for entry in LiteSubscriptions.decode(asked.command.body).subscription_set)


def _joined_groups(asked: Asked) -> Iterator[str]:
    for consumer in HeartbeatData.decode(asked.command.body).consumer_data_set:
        yield consumer.group_name


def _joined_topics(asked: Asked) -> Iterator[str]:
    for consumer in HeartbeatData.decode(asked.command.body).consumer_data_set:
        for subscription in consumer.subscription_data_set:
            yield subscription.topic


def _checked_group(asked: Asked) -> Iterator[str]:
    if asked.command.body:
        yield CheckClient.decode(asked.command.body).group


def _checked_topic(asked: Asked) -> Iterator[str]:
    if asked.command.body:
        subscription = CheckClient.decode(asked.command.body).subscription_data
        if subscription is not None:
            yield subscription.topic


def _popped_topic(asked: Asked) -> Iterator[str]:
    """A message that was popped before lies in a retry topic that has the names of its group and of its topic."""
    yield normal_topic(_present(asked, "topic"), _present(asked, "consumerGroup"))


def _acknowledged(part: str) -> Callable[[Asked], Iterator[str]]:
    def find(asked: Asked) -> Iterator[str]:
        if asked.command.body:
            for ack in BatchAckRequest.decode(asked.command.body).acks:
                yield getattr(ack, part)

    return find


ROUTE_TOPIC: Final = Found("`topic`", _route)
JOINED_GROUPS: Final = Found("for each consumer group in the body", _joined_groups)
JOINED_TOPICS: Final = Found("for each of their topics", _joined_topics)
CHECKED_GROUP: Final = Found("in the body", _checked_group)
CHECKED_TOPIC: Final = Found("in the body", _checked_topic)
LOCKED_GROUP: Final = Found("in the body", lambda asked: [LockBatch.decode(asked.command.body).consumer_group])
LOCKED_TOPICS: Final = Found(
    "for each one in the body",
    lambda asked: dict.fromkeys(queue.topic for queue in LockBatch.decode(asked.command.body).mq_set),
)
POPPED_TOPIC: Final = Found("`topic` (of a retry topic of POP: the topic in it)", _popped_topic)
ACKNOWLEDGED_GROUPS: Final = Found("for each one in the body", _acknowledged("consumer_group"))
ACKNOWLEDGED_TOPICS: Final = Found("for each one in the body", _acknowledged("topic"))
LITE_PARENTS: Final = Found("for each one in the body", _lite_parents)
LITE_GROUPS: Final = Found("for each one in the body", _lite_groups)
ASSIGNED_GROUP: Final = Found("in the body", lambda asked: [QueryAssignment.decode(asked.command.body).consumer_group])
ASSIGNED_TOPIC: Final = Found("in the body", lambda asked: [QueryAssignment.decode(asked.command.body).topic])
MODE_GROUP: Final = Found("in the body", lambda asked: [GroupRequestMode.decode(asked.command.body).consumer_group])
MODE_TOPIC: Final = Found("in the body", lambda asked: [GroupRequestMode.decode(asked.command.body).topic])
TOPICS: Final = Found(
    "for each one in the body",
    lambda asked: [topic.topic_name for topic in TopicConfigList.decode(asked.command.body).topic_config_list],
)
GROUP: Final = Found("in the body", lambda asked: [Group.decode(asked.command.body).group_name])
GROUPS: Final = Found(
    "for each one in the body",
    lambda asked: [group.group_name for group in GroupConfigList.decode(asked.command.body).group_config_list],
)


def _present(asked: Asked, name: str) -> str:
    text = asked.fields.get(name)
    if not text:
        raise Unclear(f"the request has no {name}, so it cannot be judged")
    return text


def _number(asked: Asked, name: str) -> int:
    text = asked.fields.get(name, "")
    try:
        return int(text)
    except ValueError:
        raise Unclear(f"the request has no number {name}, so it cannot be judged") from None


def _offset_of(message_id: str) -> int:
    """The place in the log that an offset message id names; -1, where nothing is, for another text."""
    try:
        return parse_offset_message_id(message_id)[1]
    except GantryError:
        return -1
