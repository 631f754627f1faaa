"""Answers to sends. The ordinary one is formatted and not encoded: it is made once per message."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.processors.transaction_port import PlacedHalf
from gantrymq.protocol.codes import VERSION, ResponseCode
from gantrymq.protocol.command import LANGUAGE, PYTHON, Command, SerializeType, encode_response
from gantrymq.protocol.headers.send import SendMessageAnswer
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.store.values import Placement

_JSON: Final = SerializeType.JSON
_ROCKETMQ: Final = SerializeType.ROCKETMQ
_PREFIX: Final = Struct(">II")
_COMPACT: Final = Struct(">IIhBhiiii")
"""Length of the frame, form and length of the header, and a binary header up to its extension map."""


class SendAnswers:
    """Says where a message was stored."""

    def __init__(self, config: BrokerConfig, store_host: bytes) -> None:
        self._region = config.region_id
        self._trace_on = "true" if config.trace_on else "false"
        self._id_prefix = offset_message_id(store_host, 0)[:-16]
        self._template = self._json_template() if is_plain(self._region) else None
        self._compact = (
            _entry(b"msgId", b"%b%%016X", len(self._id_prefix) + 16) % self._id_prefix.encode()
            + b"\0\x07queueId\0\0\0%c%b\0\x0bqueueOffset\0\0\0%c%b\0\x0dtransactionId\0\0%c%c%b"
        )
        region, trace_on = self._region.encode(), self._trace_on.encode()
        self._compact_tail = _entry(b"MSG_REGION", region, len(region)) + _entry(b"TRACE_ON", trace_on, len(trace_on))

    def _json_template(self) -> str:
        """The JSON answer with places for what differs from message to message."""
        return (
            '{"code":0,"extFields":{"queueId":"%d","transactionId":"%s","msgId":"'
            + self._id_prefix
            + '%016X","TRACE_ON":"'
            + self._trace_on
            + '","MSG_REGION":"'
            + self._region
            + f'","queueOffset":"%d"}},"flag":1,"language":"{LANGUAGE}","opaque":%d,'
            + f'"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
        )

    def stored(
        self,
        command: Command,
        place: Placement | PlacedHalf,
        queue_id: int,
        unique_key: str,
        recall: str | None = None,
    ) -> bytes:
        """``recall``: the handle of a timer message."""
        template = self._template if recall is None else None
        if command.serialize is _JSON and template is not None and is_plain(unique_key):
            # A fifth of the cost of encoding a map; nothing in it can need escaping.
            values = (queue_id, unique_key, place.log_offset, place.queue_offset, command.opaque)
            header = (template % values).encode()
            return _PREFIX.pack(len(header) + 4, len(header)) + header
        if recall is None and command.serialize is _ROCKETMQ and unique_key:
            queue, offset, key = b"%d" % queue_id, b"%d" % place.queue_offset, unique_key.encode()
            # 1 us instead of 12.
            entries = self._compact % (place.log_offset, len(queue), queue, len(offset), offset, len(key) >> 8,
                                       len(key) & 255, key)  # fmt: skip
            size = len(entries) + len(self._compact_tail)
            return b"".join(
                (_COMPACT.pack(size + 25, 1 << 24 | size + 21, 0, PYTHON, VERSION, command.opaque, 1, 0, size), entries,
                 self._compact_tail)
            )  # fmt: skip
        message_id = self._message_id(place.log_offset)
        return self._encode(command, message_id, queue_id, place.queue_offset, unique_key, recall)

    def batch_stored(self, command: Command, places: Sequence[Placement], queue_id: int, unique_key: str) -> bytes:
        message_ids = ",".join([self._message_id(place.log_offset) for place in places])
        return self._encode(command, message_ids, queue_id, places[0].queue_offset, unique_key)

    def not_stored(self, command: Command, queue_id: int) -> bytes:
        """Of a reply that reached its requester. Clients read the fields, so they are there."""
        return self._encode(command, "0", queue_id, 0, "")

    def _message_id(self, log_offset: int) -> str:
        return f"{self._id_prefix}{log_offset:016X}"

    def _encode(
        self,
        command: Command,
        message_id: str,
        queue_id: int,
        queue_offset: int,
        unique_key: str,
        recall: str | None = None,
    ) -> bytes:
        answer = SendMessageAnswer(
            msg_id=message_id, queue_id=queue_id, queue_offset=queue_offset, transaction_id=unique_key or None,
            region=self._region, trace_on=self._trace_on, recall_handle=recall,
        )  # fmt: skip
        return encode_response(command, ResponseCode.SUCCESS, answer)


def _entry(name: bytes, value: bytes, size: int) -> bytes:
    """One entry of the extension map; ``value`` may be a template of ``size`` bytes."""
    return len(name).to_bytes(2, "big") + name + size.to_bytes(4, "big") + value


def is_plain(text: str) -> bool:
    """Whether a text can stand in JSON as it is."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
