"""The body of SEND_BATCH_MESSAGE: several messages for one queue.

The items follow each other without gaps, with big-endian integers:

    total size 4 | magic 4 (0) | crc 4 (0) | flag 4 | body length 4, body | properties length 2, properties

Source: MessageDecoder.encodeMessage, decodeMessages; docs/protocol.md#batches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from gantrymq.errors import MessageIllegal, RemoteProtocolError
from gantrymq.message import properties
from gantrymq.message.message import Message
from gantrymq.message.sizes import MAX_PROPERTIES_BYTES
from gantrymq.message.submission import BatchItem

_HEAD: Final = struct.Struct(">iiiii")
_SHORT: Final = struct.Struct(">h")
_HEAD_SIZE: Final = _HEAD.size
_FIXED_SIZE: Final = 22


def encode_batch(messages: Iterable[Message]) -> bytes:
    """The body of a batch. Raises MessageIllegal when the properties of a message are too long."""
    return b"".join([_encode_item(message) for message in messages])


def _encode_item(message: Message) -> bytes:
    text = properties.encode(message.properties).encode()
    if len(text) > MAX_PROPERTIES_BYTES:
        raise MessageIllegal(f"the properties have {len(text)} bytes; at most {MAX_PROPERTIES_BYTES} fit")
    size = _FIXED_SIZE + len(message.body) + len(text)
    head = _HEAD.pack(size, 0, 0, message.flag, len(message.body))
    return b"".join((head, message.body, _SHORT.pack(len(text)), text))


def in_batches(messages: Iterable[Message], max_bytes: int) -> Iterator[list[Message]]:
    """``messages`` in lists whose batch bodies have ``max_bytes`` at most. A larger message is in a list of its own."""
    part: list[Message] = []
    size = 0
    for message in messages:
        item = item_size(message)
        if part and size + item > max_bytes:
            yield part
            part, size = [], 0
        part.append(message)
        size += item
    if part:
        yield part


UNIQ_KEY_ITEM_BYTES: Final = 80
"""The most bytes of the id and WAIT, which are added to a message when it is sent."""


def item_size(message: Message) -> int:
    """The most bytes that a message takes in a batch."""
    text = properties.encode(message.properties)
    return _FIXED_SIZE + len(message.body) + len(text.encode()) + UNIQ_KEY_ITEM_BYTES


def split_batch(body: bytes, most: int | None = None) -> list[BatchItem]:
    """The messages of a batch body. Raises RemoteProtocolError when it does not consist of whole items, MessageIllegal
    when there are more than ``most``."""
    items: list[BatchItem] = []
    append, head_at, length_at = items.append, _HEAD.unpack_from, _SHORT.unpack_from
    position, end = 0, len(body)
    try:
        while position < end:
            size, _, _, flag, body_length = head_at(body, position)
            start = position + _HEAD_SIZE
            after_body = start + body_length
            if body_length < 0:
                raise RemoteProtocolError(f"the batch item at {position} has a negative body length")
            text_start = after_body + 2
            text_end = text_start + length_at(body, after_body)[0]
            if text_end < text_start or text_end != position + size or text_end > end:
                raise RemoteProtocolError(
                    f"the parts of the batch item at {position} do not add up to its {size} bytes"
                )
            if len(items) == most:
                raise MessageIllegal(f"the batch has more than {most} messages; send several batches")
            append(BatchItem(flag, body[start:after_body], body[text_start:text_end].decode()))
            position = text_end
    except struct.error as error:
        raise RemoteProtocolError(f"the batch item at {position} is cut off: {error}") from error
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"the properties of the batch item at {position} are not UTF-8: {error}") from error
    return items
