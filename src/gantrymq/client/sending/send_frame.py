"""Encodes SEND_MESSAGE_V2 requests fast: the parts that are the same for every message are formatted only once.

The result is what encode_request makes of a SendMessage header, except for the order of the keys; a test compares.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import msgspec

from gantrymq.message import system_topics
from gantrymq.message.queues import MessageQueue
from gantrymq.message.versions import VERSION
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import LANGUAGE, ONE_WAY_FLAG

_PREFIX: Final = Struct(">II")
_json = msgspec.json.Encoder().encode


class SendFrames:
    """Frames of one producer group for one queue."""

    __slots__ = ("_born_ms", "_flag", "_head", "_start", "_sys_flag", "_tail", "_tail_one_way")

    def __init__(self, group: str, queue: MessageQueue, default_queues: int) -> None:
        fixed = {
            "a": group,
            "b": queue.topic,
            "c": system_topics.AUTO_CREATE,
            "d": str(default_queues),
            "e": str(queue.queue_id),
            "j": "0",
            "k": "false",
            "m": "false",
            "n": queue.broker_name,
        }
        code = int(RequestCode.SEND_MESSAGE_V2)
        self._head = b'{"code":%d,"extFields":%b,"f":"%%d","g":"%%d","h":"%%d","i":' % (
            code,
            _json(fixed)[:-1].replace(b"%", b"%%"),
        )
        self._sys_flag = self._born_ms = self._flag = -1
        self._start = b""
        """``_head`` with these three values. Most messages have the same values as the message before."""
        self._tail = self._tail_of(0)
        self._tail_one_way = self._tail_of(ONE_WAY_FLAG)

    @staticmethod
    def _tail_of(flag: int) -> bytes:
        envelope = _json(
            {"flag": flag, "language": LANGUAGE, "serializeTypeCurrentRPC": "JSON", "version": VERSION, "opaque": 0}
        )
        return b"}," + envelope[1:-2]

    def frame(
        self, opaque: int, sys_flag: int, born_ms: int, flag: int, properties: bytes, body: bytes, one_way: bool
    ) -> bytes:
        """One whole frame. ``properties``: the text that Stamps returns. Nothing is checked here, because the producer
        has checked the message."""
        if born_ms != self._born_ms or sys_flag != self._sys_flag or flag != self._flag:
            self._sys_flag, self._born_ms, self._flag = sys_flag, born_ms, flag
            self._start = self._head % (sys_flag, born_ms, flag)
        tail = self._tail_one_way if one_way else self._tail
        header = b"%b%b%b%d}" % (self._start, properties, tail, opaque)
        length = len(header)
        return b"".join((_PREFIX.pack(4 + length + len(body), length), header, body))
