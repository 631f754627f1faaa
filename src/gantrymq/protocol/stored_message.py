"""The record of a message in the commit log. Answers to pulls and queries, and check-backs, contain the same bytes.

All integers are big-endian and signed. With IPv4 hosts:

    from  bytes  field
       0      4  total size, itself included
       4      4  magic: 0xDAA320A7 (V1) or 0xDAA320AB (V2); 0xCBD43194 marks the unused end of a log file
       8      4  CRC-32 of the stored body & 0x7FFFFFFF; 0 = not checked
      12      4  queue id
      16      4  flag (the user's)
      20      8  queue offset
      28      8  log offset of this record
      36      4  system flag
      40      8  born timestamp, ms
      48      8  born host: 4 address bytes, 4-byte port (16 + 4 when system flag 0x10)
      56      8  store timestamp, ms
      64      8  store host (16 + 4 when system flag 0x20)
      72      4  reconsume times
      76      8  prepared transaction offset
      84    4+n  body length, body
             1+n  topic length, topic (V2: 2+n; only for topics over 127 bytes)
             2+n  properties length, properties

Source: MessageDecoder, MessageExtEncoder; docs/store.md#records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, TypeAlias
from zlib import crc32

from gantrymq.errors import LocalProtocolError, MessageIllegal, RemoteProtocolError
from gantrymq.message import flags, properties
from gantrymq.message.message import MessageView, StoredMessage
from gantrymq.message.queues import LogOffset, MessageQueue, QueueOffset
from gantrymq.message.sizes import MAX_PROPERTIES_BYTES, TOPIC_V1_MAX_BYTES
from gantrymq.protocol.compression import decompress, decompressed_start
from gantrymq.protocol.hosts import host_text as host_text
from gantrymq.protocol.hosts import pack_host as pack_host
from gantrymq.protocol.message_ids import offset_message_id

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
BLANK_MAGIC: Final = 0xCBD43194
"""The magic in the 8-byte head (size, magic) of the unused end of a log file."""

AT_SIZE: Final = 0
AT_MAGIC: Final = 4
AT_BODY_CRC: Final = 8
AT_QUEUE_ID: Final = 12
AT_FLAG: Final = 16
AT_QUEUE_OFFSET: Final = 20
AT_LOG_OFFSET: Final = 28
AT_SYS_FLAG: Final = 36
AT_BORN_TIMESTAMP: Final = 40
AT_BORN_HOST: Final = 48
AT_STORE_TIMESTAMP: Final = 56
"""This field and the following ones are 12 bytes later when the born host is IPv6."""
AT_STORE_HOST: Final = 64
AT_RECONSUME_TIMES: Final = 72
"""This field and the following ones are another 12 bytes later when the store host is IPv6."""
AT_PREPARED_OFFSET: Final = 76
AT_BODY_LENGTH: Final = 84
AT_BODY: Final = 88

FIXED_SIZE: Final = 91
"""The size of a V1 record with IPv4 hosts, without body, topic and properties."""
IPV6_EXTRA: Final = 12
"""How many bytes an IPv6 host is longer than an IPv4 host."""
CRC_MASK: Final = 0x7FFFFFFF

HEAD: Final = struct.Struct(">iIIiiqqiq8sq8siqi")
"""All fields before the body, of a record with IPv4 hosts; see the table."""
_START: Final = struct.Struct(">iIIiiqqiq")
_END: Final = struct.Struct(">iqi")
MOVED: Final = struct.Struct(">II4xi16xiq8s16xi8xi")
"""The fields that a record keeps when it is written again under another topic, from the magic on: magic, CRC, flag,
system flag, born data, reconsume times, and the length of its body."""
_SHORT: Final = struct.Struct(">h")
_LONG: Final = struct.Struct(">q")
_SIZE_AND_MAGIC: Final = struct.Struct(">iI")
_ONE_BYTE: Final = [bytes((number,)) for number in range(256)]
HOSTS_V6: Final = flags.BORN_HOST_V6 | flags.STORE_HOST_V6


Birth: TypeAlias = tuple[int, bytes, int, int, int]
"""What a sender says of a message, and stays the same wherever it goes: born timestamp, born host, flag, system flag,
reconsume times."""
Place: TypeAlias = tuple[int, int, int, int, bytes]
"""Where and when a record is stored: queue id, queue offset, log offset, store timestamp, store host. Both are tuples,
because one of each is made for every message; hosts are packed (:func:`pack_host`), times in ms."""


def encode_record(
    topic: bytes, body: bytes, properties_text: bytes, place: Place, birth: Birth, prepared_transaction_offset: int = 0
) -> bytes:
    """Encode one record. The caller has encoded the texts.

    The two IPv6 bits of the system flag are set according to the lengths of the hosts, whatever the caller passes.
    Raises MessageIllegal when the topic or the properties are too long, or a number is too large for its field.
    """
    topic_length = len(topic)
    properties_length = len(properties_text)
    if properties_length > MAX_PROPERTIES_BYTES:
        raise MessageIllegal(f"the properties have {properties_length} bytes; at most {MAX_PROPERTIES_BYTES} fit")
    queue_id, queue_offset, log_offset, store_timestamp, store_host = place
    born_timestamp, born_host, flag, sys_flag, reconsume_times = birth
    if len(born_host) != 8 or len(store_host) != 8 or topic_length > TOPIC_V1_MAX_BYTES:
        return _encode_uncommon(topic, body, properties_text, place, birth, prepared_transaction_offset)
    body_length = len(body)
    try:
        head = HEAD.pack(
            91 + body_length + topic_length + properties_length, 0xDAA320A7, crc32(body) & 0x7FFFFFFF, queue_id, flag,
            queue_offset, log_offset, sys_flag & ~0x30, born_timestamp, born_host, store_timestamp, store_host,
            reconsume_times, prepared_transaction_offset, body_length,
        )  # fmt: skip
    except struct.error as error:
        raise MessageIllegal(f"a number of the message does not fit into its field: {error}") from error
    return b"".join((head, body, _ONE_BYTE[topic_length], topic, _SHORT.pack(properties_length), properties_text))


def _encode_uncommon(
    topic: bytes, body: bytes, properties_text: bytes, place: Place, birth: Birth, prepared_transaction_offset: int
) -> bytes:
    """Like ``encode_record``, for long topics and IPv6 hosts."""
    queue_id, queue_offset, log_offset, store_timestamp, store_host = place
    born_timestamp, born_host, flag, sys_flag, reconsume_times = birth
    if len(born_host) not in (8, 20) or len(store_host) not in (8, 20):
        raise LocalProtocolError("a packed host has 8 (IPv4) or 20 (IPv6) bytes")
    if len(topic) > MAX_PROPERTIES_BYTES:
        raise MessageIllegal(f"the topic has {len(topic)} bytes; at most {MAX_PROPERTIES_BYTES} fit")
    sys_flag &= ~HOSTS_V6
    sys_flag |= flags.BORN_HOST_V6 if len(born_host) == 20 else 0
    sys_flag |= flags.STORE_HOST_V6 if len(store_host) == 20 else 0
    v2 = len(topic) > TOPIC_V1_MAX_BYTES
    try:
        parts = (
            _START.pack(
                record_size(len(topic), len(body), len(properties_text), len(born_host), len(store_host)),
                MAGIC_V2 if v2 else MAGIC_V1, crc32(body) & CRC_MASK, queue_id, flag, queue_offset, log_offset,
                sys_flag, born_timestamp,
            ),
            born_host, _LONG.pack(store_timestamp), store_host,
            _END.pack(reconsume_times, prepared_transaction_offset, len(body)), body,
            _SHORT.pack(len(topic)) if v2 else bytes((len(topic),)), topic,
            _SHORT.pack(len(properties_text)), properties_text,
        )  # fmt: skip
    except struct.error as error:
        raise MessageIllegal(f"a number of the message does not fit into its field: {error}") from error
    return b"".join(parts)


def tail_of(topic: bytes, properties_text: bytes) -> bytes:
    """The bytes after the body of a V1 record."""
    return b"".join((_ONE_BYTE[len(topic)], topic, _SHORT.pack(len(properties_text)), properties_text))


def born_host_of(record: bytes) -> bytes:
    """The packed born host of a record. ``record``: exactly one record."""
    is_v6 = record[AT_SYS_FLAG + 3] & flags.BORN_HOST_V6
    return record[AT_BORN_HOST : AT_BORN_HOST + (20 if is_v6 else 8)]


def parts_of(record: bytes) -> tuple[int, int] | None:
    """The positions of the end of the body and of the beginning of the properties; None when the record is not V1 with
    IPv4 hosts."""
    if record[AT_SYS_FLAG + 3] & HOSTS_V6 or record[AT_MAGIC + 3] != MAGIC_V1 & 0xFF:
        return None
    body_end = AT_BODY + int.from_bytes(record[AT_BODY_LENGTH:AT_BODY], "big")
    return body_end, body_end + 3 + record[body_end]


def encode_moved(
    record: bytes, body_end: int, topic: bytes, properties_text: bytes, queue_id: int, transaction_type: int,
    prepared_transaction_offset: int, queue_offset: int, log_offset: int, store_timestamp: int, store_host: bytes,
) -> bytes:  # fmt: skip
    """A V1 record with IPv4 hosts under another topic and with other properties; the sender's other fields stay.

    The result is the same as decoding and encoding the record, but takes 1.5 us instead of 8 us. ``body_end``: see
    ``parts_of``. The topic may have 127 bytes, and the store host has 8 bytes.
    """
    _magic, crc, flag, sys_flag, born_timestamp, born_host, reconsume_times, body_length = MOVED.unpack_from(record, 4)
    topic_length, properties_length = len(topic), len(properties_text)
    head = HEAD.pack(
        91 + body_length + topic_length + properties_length, 0xDAA320A7, crc, queue_id, flag, queue_offset, log_offset,
        sys_flag & ~flags.TRANSACTION_MASK | transaction_type, born_timestamp, born_host, store_timestamp, store_host,
        reconsume_times, prepared_transaction_offset, body_length,
    )  # fmt: skip
    return b"".join(
        (
            head, record[88:body_end], _ONE_BYTE[topic_length], topic, _SHORT.pack(properties_length), properties_text,
        )
    )  # fmt: skip


def record_size(
    topic_bytes: int, body_bytes: int, properties_bytes: int, born_host_bytes: int = 8, store_host_bytes: int = 8
) -> int:
    """The size of the record that :func:`encode_record` makes of parts of these lengths."""
    long_topic = 1 if topic_bytes > TOPIC_V1_MAX_BYTES else 0
    hosts = born_host_bytes + store_host_bytes - 16
    return FIXED_SIZE + topic_bytes + body_bytes + properties_bytes + long_topic + hosts


def encode_stored(message: StoredMessage) -> bytes:
    """The record of a decoded message. The bytes are the same as before, except for a body CRC that was 0 or wrong."""
    return encode_record(
        message.topic.encode(), message.body, message.properties_text.encode(), place_of(message), birth_of(message),
        message.prepared_transaction_offset,
    )  # fmt: skip


def place_of(message: StoredMessage) -> Place:
    """Where a decoded message lies."""
    return (
        message.queue_id, message.queue_offset, message.log_offset, message.store_timestamp,
        pack_host(message.store_host),
    )  # fmt: skip


def birth_of(message: StoredMessage) -> Birth:
    """What the sender of a decoded message said of it."""
    return (
        message.born_timestamp,
        pack_host(message.born_host),
        message.flag,
        message.sys_flag,
        message.reconsume_times,
    )


def decode_record(buffer: Buffer, offset: int = 0, *, check: bool = True) -> StoredMessage:
    """Decode the record that starts at ``offset``; bytes after it are ignored.

    With ``check`` the CRC of the body is compared, too. Bytes of topic and properties that are not UTF-8 become U+FFFD,
    as in Java; they are not an error. Raises RemoteProtocolError when no complete, consistent record starts there (also
    at the head of the unused end of a log file).
    """
    try:
        return _decode(buffer, offset, check)
    except struct.error as error:
        raise RemoteProtocolError(f"the record at {offset} is cut off: {error}") from error


def _decode(buffer: Buffer, offset: int, check: bool) -> StoredMessage:
    if offset < 0:
        raise RemoteProtocolError(f"no record starts at the negative offset {offset}")
    (
        size, magic, body_crc, queue_id, flag, queue_offset, log_offset, sys_flag, born_timestamp, born_host,
        store_timestamp, store_host, reconsume_times, prepared, body_length,
    ) = HEAD.unpack_from(buffer, offset)  # fmt: skip
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        raise RemoteProtocolError(f"the record at {offset} has the unknown magic {magic:#010x}")
    position = offset + AT_BODY
    if sys_flag & HOSTS_V6:
        position, born_host, store_timestamp, store_host = _read_hosts(buffer, offset, sys_flag)
        reconsume_times, prepared, body_length = _END.unpack_from(buffer, position)
        position += _END.size
    end = offset + size
    if body_length < 0 or end > len(buffer) or position + body_length + 3 > end:
        raise RemoteProtocolError(f"the record at {offset} is torn: {size} bytes with a body of {body_length}")
    body = bytes(buffer[position : position + body_length])
    position += body_length
    if magic == MAGIC_V1:
        topic_length = buffer[position]
        position += 1
    else:
        (topic_length,) = _SHORT.unpack_from(buffer, position)
        position += 2
    after_topic = position + topic_length
    if topic_length < 0 or after_topic + 2 > end:
        raise RemoteProtocolError(f"the topic of the record at {offset} reaches over its end: {topic_length} bytes")
    (properties_length,) = _SHORT.unpack_from(buffer, after_topic)
    if properties_length < 0 or after_topic + 2 + properties_length != end:
        raise RemoteProtocolError(f"the parts of the record at {offset} do not add up to its {size} bytes")
    if check and body_crc and crc32(body) & CRC_MASK != body_crc:
        raise RemoteProtocolError(f"the body of the record at {offset} does not match its CRC")
    return StoredMessage(
        str(buffer[position:after_topic], "utf-8", "replace"), queue_id, QueueOffset(queue_offset),
        LogOffset(log_offset), size, flag, sys_flag, born_timestamp, host_text(born_host), store_timestamp,
        host_text(store_host), reconsume_times, LogOffset(prepared), body_crc, body,
        str(buffer[after_topic + 2 : end], "utf-8", "replace"),
    )  # fmt: skip


def properties_text(record: Buffer) -> str:
    """The properties of a record, without decoding its other fields. ``record``: exactly one record."""
    position = AT_BODY_LENGTH
    if record[AT_SYS_FLAG + 3] & HOSTS_V6:
        sys_flag = record[AT_SYS_FLAG + 3]
        for host in (flags.BORN_HOST_V6, flags.STORE_HOST_V6):
            position += IPV6_EXTRA if sys_flag & host else 0
    position += 4 + int.from_bytes(record[position : position + 4], "big")
    if record[AT_MAGIC + 3] == MAGIC_V1 & 0xFF:
        position += 1 + record[position]
    else:
        position += 2 + int.from_bytes(record[position : position + 2], "big")
    return str(record[position + 2 :], "utf-8", "replace")


def _read_hosts(buffer: Buffer, offset: int, sys_flag: int) -> tuple[int, bytes, int, bytes]:
    """(position after the store host, born host, store timestamp, store host) when one of the hosts is IPv6."""
    position = offset + AT_BORN_HOST
    length = 20 if sys_flag & flags.BORN_HOST_V6 else 8
    born_host = bytes(buffer[position : position + length])
    position += length
    (store_timestamp,) = _LONG.unpack_from(buffer, position)
    position += 8
    length = 20 if sys_flag & flags.STORE_HOST_V6 else 8
    store_host = bytes(buffer[position : position + length])
    position += length
    if position > len(buffer):
        raise RemoteProtocolError(f"the record at {offset} is cut off in its hosts")
    return position, born_host, store_timestamp, store_host


def scan(buffer: Buffer, offset: int = 0, *, check: bool = True) -> Iterator[StoredMessage]:
    """The records that follow each other in ``buffer``, as in the answer to a pull.

    Raises RemoteProtocolError at the first byte that belongs to no record, after yielding the records before it.
    """
    end = len(buffer)
    while offset < end:
        message = decode_record(buffer, offset, check=check)
        yield message
        offset += message.size


def to_view(message: StoredMessage, broker_name: str, body_max: int | None = None) -> MessageView:
    """The message that a listener gets, with its body decompressed and its properties decoded. ``broker_name``: the
    broker from whose queue it was read. ``body_max``: bytes of the body that are wanted, for people who look at it;
    None: all.

    Raises RemoteProtocolError when the body cannot be decompressed.
    """
    decoded = properties.decode(message.properties_text)
    place_id = offset_message_id(pack_host(message.store_host), message.log_offset)
    body, whole = message.body, True
    if body_max is not None:
        body, whole = decompressed_start(body, message.sys_flag, body_max)
    elif message.sys_flag & flags.COMPRESSED:
        body = decompress(body, message.sys_flag)
    return MessageView(
        message.topic,
        body,
        decoded,
        message.flag,
        MessageQueue(message.topic, broker_name, message.queue_id),
        message.queue_offset,
        decoded.get(properties.UNIQ_KEY) or place_id,
        place_id,
        message.born_timestamp,
        message.born_host,
        message.store_timestamp,
        message.store_host,
        message.reconsume_times,
        message.log_offset,
        message.sys_flag,
        not whole,
    )


def encode_blank(size: int) -> bytes:
    """The 8-byte head of the unused end of a log file. ``size``: the length of that end, including the head. Source:
    CommitLog.doAppend."""
    return _SIZE_AND_MAGIC.pack(size, BLANK_MAGIC)


def read_size_and_magic(buffer: Buffer, offset: int = 0) -> tuple[int, int]:
    """(total size, magic as an unsigned number) at ``offset``; raises RemoteProtocolError when cut off."""
    try:
        size, magic = _SIZE_AND_MAGIC.unpack_from(buffer, offset)
    except struct.error as error:
        raise RemoteProtocolError(f"the record at {offset} is cut off: {error}") from error
    return size, magic
