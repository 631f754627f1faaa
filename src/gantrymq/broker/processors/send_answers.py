"""Answers to sends. The ordinary one is formatted and not encoded: it is made once per message."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.processors.transaction_port import PlacedHalf
from gantrymq.protocol.codes import VERSION, ResponseCode
from gantrymq.protocol.command import LANGUAGE, Command, SerializeType, encode_response
from gantrymq.protocol.headers.send import SendMessageAnswer
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.store.values import Placement

_PREFIX: Final = Struct(">II")


class SendAnswers:
    """Says where a message was stored."""

    def __init__(self, config: BrokerConfig, store_host: bytes) -> None:
        self._region = config.region_id
        self._trace_on = "true" if config.trace_on else "false"
        self._id_prefix = offset_message_id(store_host, 0)[:-16]
        self._template = self._json_template() if is_plain(self._region) else None

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
        if command.serialize is SerializeType.JSON and template is not None and is_plain(unique_key):
            # A fifth of the cost of encoding a map; nothing in it can need escaping.
            values = (queue_id, unique_key, place.log_offset, place.queue_offset, command.opaque)
            header = (template % values).encode()
            return _PREFIX.pack(len(header) + 4, len(header)) + header
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


def is_plain(text: str) -> bool:
    """Whether a text can stand in JSON as it is."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
