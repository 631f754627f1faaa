"""One pop: its request, and the meaning of its answer; and the requests that end or prolong a delivery. No I/O.

Source: MQClientAPIImpl.processPopResponse, DefaultMQPushConsumerImpl.ackAsync and changePopInvisibleTimeAsync;
docs/protocol.md#pop.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gantrymq.client.consuming.filters import Filter
from gantrymq.client.results import PullStatus, RawPull
from gantrymq.errors import ConfigError, RemoteProtocolError
from gantrymq.message import properties
from gantrymq.message.arguments import shown
from gantrymq.message.message import MessageView
from gantrymq.message.queues import QueueOffset
from gantrymq.message.receipt_handle import NORMAL, ReceiptHandle, kind_of, parse, real_topic
from gantrymq.message.system_topics import normal_topic
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.pop import AckMessage, ChangeInvisibleTime, Notification, PopMessage, PopMessageAnswer
from gantrymq.protocol.pop_texts import read_order_counts, read_starts

ANY_QUEUE: Final = -1
NOTHING: Final = frozenset(
    {ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL, ResponseCode.PULL_NOT_FOUND}
)  # fmt: skip
"""Answers to a pop that found no message."""


class Place(NamedTuple):
    """Where a pop looks: all queues that a broker has of a topic, as brokers name both."""

    topic: str
    broker_name: str


def pop_request(
    group: str, place: Place, count: int, invisible_ms: int, wanted: Filter, now_ms: int, *, from_start: bool,
    orderly: bool,
) -> PopMessage:  # fmt: skip
    """A pop that does not wait. ``from_start``: where a group begins in a queue that it has never read."""
    return PopMessage(
        consumer_group=group, topic=place.topic, queue_id=ANY_QUEUE, max_msg_nums=count, invisible_time=invisible_ms,
        poll_time=0, born_time=now_ms, init_mode=int(from_start), exp_type=wanted.kind, exp=wanted.text,
        order=orderly, bname=place.broker_name,
    )  # fmt: skip


def notice_request(group: str, place: Place, poll_ms: int, now_ms: int, *, orderly: bool) -> Notification:
    """Ask whether there is something to pop, now or within ``poll_ms``."""
    return Notification(
        consumer_group=group, topic=place.topic, queue_id=ANY_QUEUE, poll_time=poll_ms, born_time=now_ms,
        order=orderly, bname=place.broker_name,
    )  # fmt: skip


def records_of(answer: Command) -> RawPull:
    """The records of a pop that found messages."""
    none = QueueOffset(0)
    return RawPull(status=PullStatus.FOUND, data=answer.body, next_offset=none, min_offset=none, max_offset=none)


class Handles:
    """Gives the messages of one answer their receipt handles."""

    def __init__(self, answer: Command, group: str, broker_name: str) -> None:
        """Raises RemoteProtocolError when the answer does not say what they consist of."""
        self._header = answer.header(PopMessageAnswer)
        self._starts = read_starts(self._header.start_offset_info)
        self._counts = read_order_counts(self._header.order_count_info)
        self._group = group
        self._broker_name = broker_name

    def give(self, view: MessageView) -> None:
        """The handle is the property POP_CK, and a message of a retry topic is under the topic that it was sent to. A
        message that came back may have its handle from the broker."""
        queue_id, offset = view.queue.queue_id, view.queue_offset
        kind = kind_of(view.topic)
        if kind != NORMAL or properties.POP_CHECK_POINT not in view.properties:
            start = self._starts.get((kind, queue_id))
            if start is None:
                raise RemoteProtocolError(f"the answer to a pop does not say where its batch of {view.queue} begins")
            header = self._header
            view.properties[properties.POP_CHECK_POINT] = str(
                ReceiptHandle(
                    start, header.pop_time, header.invisible_time, header.revive_qid, kind, self._broker_name,
                    queue_id, offset,
                )
            )  # fmt: skip
        view.topic = normal_topic(view.topic, self._group)
        view.reconsume_times = max(view.reconsume_times, self._counts.get((queue_id, offset), 0))
        for name in (properties.MIN_OFFSET, properties.MAX_OFFSET):  # a pop knows no bounds
            view.properties.pop(name, None)


def checked_message(message: object) -> MessageView:
    """The message. Raises ConfigError for anything that ``receive`` has not returned."""
    if not isinstance(message, MessageView):
        raise ConfigError(f"message must be a MessageView, as receive returns it, not {shown(message)}")
    if properties.POP_CHECK_POINT not in message.properties:
        raise ConfigError(
            f"message {message.message_id} has no receipt handle: receive of a SimpleConsumer did not return it"
        )
    return message


class Delivery(NamedTuple):
    """A message that a consumer has in hand."""

    topic: str
    """The one in which it lies."""
    handle: ReceiptHandle


def delivery_of(message: MessageView, group: str) -> Delivery:
    """Raises ConfigError when the receipt handle was damaged."""
    text = message.properties[properties.POP_CHECK_POINT]
    try:
        handle = parse(text)
    except RemoteProtocolError as error:
        raise ConfigError(f"message {message.message_id}: {error}") from error
    topic = real_topic(normal_topic(message.queue.topic, group), group, handle.kind)
    if topic is None:
        raise ConfigError(f"message {message.message_id}: {text!r} names a topic of an unknown kind")
    return Delivery(topic, handle)


def ack_request(group: str, delivery: Delivery) -> AckMessage:
    handle = delivery.handle
    return AckMessage(
        consumer_group=group, topic=delivery.topic, queue_id=handle.queue_id, extra_info=str(handle),
        offset=handle.offset, bname=handle.broker_name,
    )  # fmt: skip


def change_request(group: str, delivery: Delivery, invisible_ms: int, *, suspend: bool) -> ChangeInvisibleTime:
    """``suspend``: the delivery does not count as an attempt."""
    handle = delivery.handle
    return ChangeInvisibleTime(
        consumer_group=group, topic=delivery.topic, queue_id=handle.queue_id, extra_info=str(handle),
        offset=handle.offset, invisible_time=invisible_ms, suspend=suspend, bname=handle.broker_name,
    )  # fmt: skip
