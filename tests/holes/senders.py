"""Senders that are not members of a group, and messages that are not half messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gantrymq.client.connection.endpoint import Outside
from gantrymq.message import properties
from gantrymq.message.system_topics import AUTO_CREATE
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.send import SendMessage, SendMessageAnswer
from gantrymq.protocol.message_ids import parse_offset_message_id
from tests.holes.actors import Producer
from tests.holes.stage import Stage, require

BODY_AT: Final = 88
"""The position of the body in a record with IPv4 addresses."""


@dataclass(frozen=True, slots=True)
class Plain:
    """An ordinary message and its position."""

    key: str
    place: tuple[int, int]
    """(queue offset, log offset)"""


def silent(stage: Stage, group: str, outside: Outside | None = None) -> Producer:
    """A connection that never sends a heartbeat, so it belongs to no group. ``outside``: those of its machine."""
    return Producer(outside or stage.new_outside(), lambda: stage.address, group, stage.new_key)


async def send(producer: Producer, topic: str, body: bytes, key: str, **more: str) -> Plain:
    """Send an ordinary message; ``more``: properties."""
    header = SendMessage(
        producer_group=producer.group, topic=topic, default_topic=AUTO_CREATE, default_topic_queue_nums=1, queue_id=0,
        sys_flag=0, born_timestamp=0, flag=0, properties=properties.encode({"UNIQ_KEY": key} | more),
        reconsume_times=0, unit_mode=False, batch=False,
    )  # fmt: skip
    answer = await producer.ask(RequestCode.SEND_MESSAGE_V2, header, body)
    require(answer.code == ResponseCode.SUCCESS, f"a plain message was refused: {answer.remark}")
    stored = answer.header(SendMessageAnswer)
    return Plain(key, (stored.queue_offset, parse_offset_message_id(stored.msg_id)[1]))
