"""Answers to sends. The ordinary answer is joined from texts and not encoded, because it is made for every message."""

from __future__ import annotations

from binascii import hexlify
from struct import Struct
from typing import Final

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.operations.send_batch import BatchStored
from gantrymq.broker.submission import Stored
from gantrymq.message.send_status import SendStatus
from gantrymq.message.versions import VERSION
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import LANGUAGE, PYTHON, Command, SerializeType, encode_response
from gantrymq.protocol.headers.send import SendMessageAnswer
from gantrymq.protocol.message_ids import offset_message_id

CODE_OF_STATUS: Final = {
    SendStatus.SEND_OK: ResponseCode.SUCCESS,
    SendStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    SendStatus.SLAVE_NOT_AVAILABLE: ResponseCode.SLAVE_NOT_AVAILABLE,
    SendStatus.FLUSH_SLAVE_TIMEOUT: ResponseCode.FLUSH_SLAVE_TIMEOUT,
}
_SEND_OK: Final = SendStatus.SEND_OK
_JSON: Final = SerializeType.JSON
_ROCKETMQ: Final = SerializeType.ROCKETMQ
_PREFIX: Final = Struct(">II")
_OPAQUE: Final = Struct(">i").pack
_OFFSET: Final = Struct(">Q").pack
_COMPACT: Final = Struct(">IIhBh")
"""Length of the frame, form and length of the header, and a binary header up to its opaque."""
_COMPACT_REST: Final = Struct(">iii")
"""Flag, size of the remark and size of the extension map."""
_BYTES: Final = [bytes((number,)) for number in range(256)]
_JSON_OPAQUE: Final = f'"}},"flag":1,"language":"{LANGUAGE}","opaque":'.encode()
_SHORT_KEY: Final = 60
"""Characters of a unique key of which the size fits into one byte, whatever they are; those of clients have 32."""
_QUEUES_LIMIT: Final = 1024
"""Queue ids of which the text is kept."""


class SendAnswers:
    """Says where a message was stored."""

    def __init__(self, config: LiveConfig, store_host: bytes) -> None:
        self._region = config.identity.region_id
        self._trace_on = "true" if config.identity.trace_on else "false"
        self._id_prefix = offset_message_id(store_host, 0)[:-16]
        self._json = self._json_parts() if is_plain(self._region) else None
        # What is the same in all binary answers.
        region, trace_on, prefix = self._region.encode(), self._trace_on.encode(), self._id_prefix.encode()
        self._id_entry = _size_of(b"msgId", len(prefix) + 16) + prefix
        self._tail = _entry(b"MSG_REGION", region) + _entry(b"TRACE_ON", trace_on)
        self._compact_size = len(self._id_entry) + 16 + 1 + len(_TRANSACTION_ID) + 1 + len(self._tail)
        self._heads: dict[int, tuple[bytes, bytes]] = {}
        """By the size of the extension map: what is in front of the opaque and what is behind it."""
        self._queue_entries: dict[int, bytes] = {}
        """By queue id."""

    def _json_parts(self) -> tuple[bytes, bytes, bytes, bytes, bytes]:
        """The JSON answer without what differs from message to message."""
        after_id = f'","TRACE_ON":"{self._trace_on}","MSG_REGION":"{self._region}","queueOffset":"'
        tail = f',"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
        return (
            b'{"code":0,"extFields":{"queueId":"', b'","transactionId":"', b'","msgId":"' + self._id_prefix.encode(),
            after_id.encode(), tail.encode(),
        )  # fmt: skip

    def stored(
        self,
        command: Command,
        stored: Stored,
    ) -> bytes:
        if stored.status is not _SEND_OK:
            return self._encode(
                command, self._message_id(stored.log_offset), stored.queue_id, stored.queue_offset, stored.unique_key,
                stored.recall_handle, stored.status,
            )  # fmt: skip
        unique_key, queue_id, recall = stored.unique_key, stored.queue_id, stored.recall_handle
        json = self._json if recall is None else None
        if json is not None and command.serialize is _JSON and (unique_key.isalnum() or is_plain(unique_key)):
            # A fifth of the cost of encoding a map; nothing in it can need escaping.
            before, key, at, after_id, tail = json
            header = b"".join(
                (before, b"%d" % queue_id, key, unique_key.encode(), at, hexlify(_OFFSET(stored.log_offset)).upper(),
                 after_id, b"%d" % stored.queue_offset, _JSON_OPAQUE, b"%d" % command.opaque, tail)
            )  # fmt: skip
            return _PREFIX.pack(len(header) + 4, len(header)) + header
        if recall is None and command.serialize is _ROCKETMQ and 0 < len(unique_key) <= _SHORT_KEY:
            # Joined of parts that are ready: 1 us instead of 12.
            key, offset = unique_key.encode(), b"%d" % stored.queue_offset
            queue = self._queue_entries.get(queue_id) or self._queue_entry(queue_id)
            size = self._compact_size + len(queue) + len(offset) + len(key)
            before, behind = self._heads.get(size) or self._head(size)
            return b"".join(
                (before, _OPAQUE(command.opaque), behind, hexlify(_OFFSET(stored.log_offset)).upper(), queue,
                 _BYTES[len(offset)], offset, _TRANSACTION_ID, _BYTES[len(key)], key, self._tail)
            )  # fmt: skip
        message_id = self._message_id(stored.log_offset)
        return self._encode(command, message_id, queue_id, stored.queue_offset, unique_key, recall)

    def _queue_entry(self, queue_id: int) -> bytes:
        """The queue id, and the queue offset up to the last byte of its size."""
        entry = _entry(b"queueId", b"%d" % queue_id) + _size_of(b"queueOffset", 0)[:-1]
        if len(self._queue_entries) < _QUEUES_LIMIT:
            self._queue_entries[queue_id] = entry
        return entry

    def _head(self, size: int) -> tuple[bytes, bytes]:
        before = _COMPACT.pack(size + 25, 1 << 24 | size + 21, 0, PYTHON, VERSION)
        head = self._heads[size] = before, _COMPACT_REST.pack(1, 0, size) + self._id_entry
        return head

    def batch_stored(self, command: Command, batch: BatchStored) -> bytes:
        message_ids = ",".join([self._message_id(log_offset) for log_offset in batch.log_offsets])
        return self._encode(
            command, message_ids, batch.queue_id, batch.queue_offset, batch.unique_key, None, batch.status
        )

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
        status: SendStatus = _SEND_OK,
    ) -> bytes:
        answer = SendMessageAnswer(
            msg_id=message_id, queue_id=queue_id, queue_offset=queue_offset, transaction_id=unique_key or None,
            region=self._region, trace_on=self._trace_on, recall_handle=recall,
        )  # fmt: skip
        return encode_response(command, CODE_OF_STATUS[status], answer)


def _size_of(name: bytes, size: int) -> bytes:
    """What stands in front of a value of ``size`` bytes in the extension map."""
    return len(name).to_bytes(2, "big") + name + size.to_bytes(4, "big")


def _entry(name: bytes, value: bytes) -> bytes:
    return _size_of(name, len(value)) + value


_TRANSACTION_ID: Final = _size_of(b"transactionId", 0)[:-1]


def is_plain(text: str) -> bool:
    """Whether a text can stand in JSON as it is."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
