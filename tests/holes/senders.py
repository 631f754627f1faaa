"""Senders that are no members of a group, and messages that are no halves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gantrymq.client.connection.endpoint import Doors
from gantrymq.message import properties
from gantrymq.message.system_topics import AUTO_CREATE
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.send import SendMessage, SendMessageAnswer
from gantrymq.protocol.message_ids import parse_offset_message_id
from tests.holes.actors import Producer
from tests.holes.stage import Stage, require

BODY_AT: Final = 88
"""Bytes of a record before its body, with IPv4 addresses."""


@dataclass(frozen=True, slots=True)
class Plain:
    """An ordinary message where it lies."""

    key: str
    place: tuple[int, int]
    """(queue offset, log offset)"""


def silent(stage: Stage, group: str, doors: Doors | None = None) -> Producer:
    """A connection that never said which groups it is of; ``doors``: of the machine it runs on."""
    return Producer(doors or stage.new_doors(), lambda: stage.address, group, stage.new_key)


async def send(producer: Producer, topic: str, body: bytes, key: str, **more: str) -> Plain:
    """An ordinary message; ``more``: properties."""
    header = SendMessage(
        producer_group=producer.group, topic=topic, default_topic=AUTO_CREATE, default_topic_queue_nums=1, queue_id=0,
        sys_flag=0, born_timestamp=0, flag=0, properties=properties.encode({"UNIQ_KEY": key} | more),
        reconsume_times=0, unit_mode=False, batch=False,
    )  # fmt: skip
    answer = await producer.ask(RequestCode.SEND_MESSAGE_V2, header, body)
    require(answer.code == ResponseCode.SUCCESS, f"a plain message was refused: {answer.remark}")
    stored = answer.header(SendMessageAnswer)
    return Plain(key, (stored.queue_offset, parse_offset_message_id(stored.msg_id)[1]))
