"""Needs that are not in an extension field: in the body of a request, or in a message that it names by its place.

Who names a message by its place could name any message. So the message decides which topic the request is about, and
an undecided one belongs to a topic that is open to nobody by a general policy (``judge.is_hidden``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gantrymq.access.needs import Asked, Unclear
from gantrymq.access.values import Action, Kind, Need, group_need, send_need, topic_need
from gantrymq.errors import GantryError
from gantrymq.message.system_topics import AUTO_CREATE, normal_topic
from gantrymq.message.transaction import OPERATOR_REMARK
from gantrymq.protocol.bodies.groups import Group, GroupConfigList
from gantrymq.protocol.bodies.heartbeat import CheckClient, HeartbeatData
from gantrymq.protocol.bodies.locks import LockBatch
from gantrymq.protocol.bodies.pop import BatchAckRequest, GroupRequestMode, QueryAssignment
from gantrymq.protocol.bodies.topics import TopicConfigList
from gantrymq.protocol.halves import decode_ends
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.protocol.message_ids import parse_offset_message_id

PUB: Final = (Action.PUB,)
SUB: Final = (Action.SUB,)
READ: Final = (Action.SUB, Action.GET)
UPDATE: Final = (Action.UPDATE,)
CREATE: Final = (Action.CREATE,)
MAKE: Final = (Action.CREATE, Action.UPDATE)


def end(asked: Asked) -> Iterator[Need]:
    """The end of a transaction is judged by the topic that consumers would get the message under, as the broker has it:
    not by what the client says, and not by the half topic (hole 22). An operator, who decides in place of a program,
    needs Update.
    """
    header = asked.command.header(EndTransaction)
    topic = asked.places.topic_of_half(header.tran_state_table_offset, header.commit_log_offset) or header.topic
    if topic:
        yield topic_need(topic, UPDATE) if _by_operator(asked) else send_need(topic)


def _by_operator(asked: Asked) -> bool:
    return (asked.command.remark or "").startswith(OPERATOR_REMARK)


def end_halves(asked: Asked) -> Iterator[Need]:
    """Each topic once, however many half messages there are."""
    of_half = asked.places.topic_of_half
    topics = {of_half(one.queue_offset, one.log_offset): None for one in decode_ends(asked.command.body)}
    for topic in topics:
        if topic:
            yield send_need(topic)


def resume(asked: Asked) -> Iterator[Need]:
    topic = asked.places.real_topic_at(_offset_of(asked.fields.get("msgId", ""))) or asked.fields.get("topic")
    if not topic:
        raise Unclear("no message lies at the place that msgId names")
    yield topic_need(topic, UPDATE)


def view(asked: Asked) -> Iterator[Need]:
    """Nothing is there: the request is answered so, to everybody who signs."""
    for topic in asked.places.topics_at(_number(asked, "offset")):
        yield topic_need(topic, READ)


def send_back(asked: Asked) -> Iterator[Need]:
    """The message at the offset goes to the retry topic of the group, whatever message it is."""
    yield group_need(asked.fields.get("group", ""), SUB)
    for topic in asked.places.topics_at(_number(asked, "offset")):
        yield topic_need(topic, SUB)


def consume_directly(asked: Asked) -> Iterator[Need]:
    """The message goes to a member of the group."""
    yield group_need(asked.fields.get("consumerGroup", ""), SUB)
    named = asked.fields.get("topic")
    if named:
        yield topic_need(named, SUB)
    message_id = asked.fields.get("msgId")
    for topic in asked.places.topics_at(_offset_of(message_id)) if message_id else ():
        yield topic_need(topic, SUB)


def route(asked: Asked) -> Iterator[Need]:
    """A retry topic belongs to its group. Who makes topics by their first message asks for the route of the template,
    which has no messages."""
    topic = asked.fields.get("topic", "")
    if topic != AUTO_CREATE:
        need = topic_need(topic, (Action.PUB, Action.SUB, Action.GET))
        yield need if need.kind is Kind.TOPIC else group_need(topic, READ)


def heartbeat(asked: Asked) -> Iterator[Need]:
    for consumer in HeartbeatData.decode(asked.command.body).consumer_data_set:
        yield group_need(consumer.group_name, SUB)
        for subscription in consumer.subscription_data_set:
            yield topic_need(subscription.topic, SUB)


def client_config(asked: Asked) -> Iterator[Need]:
    if asked.command.body:
        body = CheckClient.decode(asked.command.body)
        yield group_need(body.group, SUB)
        if body.subscription_data is not None:
            yield topic_need(body.subscription_data.topic, SUB)


def locks(asked: Asked) -> Iterator[Need]:
    body = LockBatch.decode(asked.command.body)
    yield group_need(body.consumer_group, SUB)
    for topic in dict.fromkeys(queue.topic for queue in body.mq_set):
        yield topic_need(topic, SUB)


def popped(asked: Asked) -> Iterator[Need]:
    """A message that was popped before lies in a retry topic that has the names of its group and of its topic."""
    group = _present(asked, "consumerGroup")
    yield group_need(group, SUB)
    yield topic_need(normal_topic(_present(asked, "topic"), group), SUB)


def batch_ack(asked: Asked) -> Iterator[Need]:
    if asked.command.body:
        for ack in BatchAckRequest.decode(asked.command.body).acks:
            yield group_need(ack.consumer_group, SUB)
            yield topic_need(ack.topic, SUB)


def assignment(asked: Asked) -> Iterator[Need]:
    body = QueryAssignment.decode(asked.command.body)
    yield group_need(body.consumer_group, READ)
    yield topic_need(body.topic, READ)


def request_mode(asked: Asked) -> Iterator[Need]:
    body = GroupRequestMode.decode(asked.command.body)
    yield group_need(body.consumer_group, UPDATE)
    yield topic_need(body.topic, UPDATE)


def topic_list(asked: Asked) -> Iterator[Need]:
    for topic in TopicConfigList.decode(asked.command.body).topic_config_list:
        yield topic_need(topic.topic_name, CREATE)


def group(asked: Asked) -> Iterator[Need]:
    yield group_need(Group.decode(asked.command.body).group_name, MAKE)


def group_list(asked: Asked) -> Iterator[Need]:
    for one in GroupConfigList.decode(asked.command.body).group_config_list:
        yield group_need(one.group_name, MAKE)


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
