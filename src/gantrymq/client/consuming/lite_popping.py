"""Pops of lite topics: requests, and what their answers mean. No I/O.

Source: LiteSubscriptionManager and LiteSimpleConsumer of RocketMQ 5's clients, PopLiteMessageProcessor of 5.5.0;
docs/protocol.md#lite-topics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gantrymq.errors import RemoteProtocolError
from gantrymq.message import properties
from gantrymq.message.lite_topics import LITE_QUEUE, lite_queue
from gantrymq.message.message import MessageView
from gantrymq.message.receipt_handle import NORMAL, ReceiptHandle
from gantrymq.protocol.bodies.lite import LiteAction, LiteSubscriptionItem, LiteSubscriptions
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.lite import PopLiteMessage, PopLiteMessageAnswer
from gantrymq.protocol.headers.pop import AckMessage, ChangeInvisibleTime
from gantrymq.protocol.pop_texts import read_lite_order_counts

_SEPARATOR: Final = ","
"""Between the further places of a record."""


def subscription(
    action: LiteAction, client_id: str, group: str, topic: str, lite_topics: Iterable[str], now_ms: int
) -> bytes:
    """The body of LITE_SUBSCRIPTION_CTL."""
    item = LiteSubscriptionItem(
        action=action, client_id=client_id, group=group, topic=topic, lite_topic_set=sorted(lite_topics),
        version=now_ms,
    )  # fmt: skip
    return LiteSubscriptions(subscription_set=[item]).encode()


def lite_pop_request(
    client_id: str, group: str, topic: str, broker_name: str, count: int, invisible_ms: int, poll_ms: int, now_ms: int
) -> PopLiteMessage:
    """``poll_ms``: how long the broker may wait for a message."""
    return PopLiteMessage(
        client_id=client_id, consumer_group=group, topic=topic, max_msg_num=count, invisible_time=invisible_ms,
        poll_time=poll_ms, born_time=now_ms, bname=broker_name,
    )  # fmt: skip


class LiteHandles:
    """Gives the messages of one answer their receipt handles, in the order in which they lie there."""

    def __init__(self, answer: Command, topic: str, broker_name: str) -> None:
        """Raises RemoteProtocolError when the answer does not say what they consist of."""
        self._header = answer.header(PopLiteMessageAnswer)
        self._counts = read_lite_order_counts(self._header.order_count_info)
        self._topic = topic
        self._broker_name = broker_name
        self._given = 0

    def give(self, view: MessageView) -> None:
        """Raises RemoteProtocolError when the message does not say where in its lite topic it lies."""
        offset, header = self._offset(view), self._header
        view.properties[properties.POP_CHECK_POINT] = str(
            ReceiptHandle(
                offset, header.pop_time, header.invisible_time, header.revive_qid, NORMAL, self._broker_name,
                LITE_QUEUE, offset,
            )
        )  # fmt: skip
        if self._given < len(self._counts):
            view.reconsume_times = max(view.reconsume_times, self._counts[self._given])
        self._given += 1

    def _offset(self, view: MessageView) -> int:
        queue = lite_queue(self._topic, view.lite_topic or "")
        names = view.properties.pop(properties.MULTI_DISPATCH, "").split(_SEPARATOR)
        offsets = view.properties.pop(properties.MULTI_QUEUE_OFFSET, "").split(_SEPARATOR)
        found = dict(zip(names, offsets, strict=False)).get(queue, "")
        if not (found.isascii() and found.isdecimal()):
            raise RemoteProtocolError(f"the answer to a pop does not say where in {queue} a message lies")
        return int(found)


def lite_ack_request(group: str, topic: str, lite_topic: str, handle: ReceiptHandle) -> AckMessage:
    return AckMessage(
        consumer_group=group, topic=topic, queue_id=handle.queue_id, extra_info=str(handle), offset=handle.offset,
        lite_topic=lite_topic, bname=handle.broker_name,
    )  # fmt: skip


def lite_change_request(
    group: str, topic: str, lite_topic: str, handle: ReceiptHandle, invisible_ms: int, *, suspend: bool
) -> ChangeInvisibleTime:
    """``suspend``: the delivery does not count as an attempt."""
    return ChangeInvisibleTime(
        consumer_group=group, topic=topic, queue_id=handle.queue_id, extra_info=str(handle), offset=handle.offset,
        invisible_time=invisible_ms, lite_topic=lite_topic, suspend=suspend, bname=handle.broker_name,
    )  # fmt: skip
