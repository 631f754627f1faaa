"""The body with which a broker announces its topics to a name server.

Plain form: JSON. Compressed form, zlib of (integers of 4 bytes, big-endian):

    length, DataVersion as JSON | count, per topic: length, text form | length, filter server list as JSON
    | from version 5.0.0 on: count, per static topic: length, mapping as JSON

Text form of a topic: ``name readQueues writeQueues perm filterType [attributes as JSON]``.

Source: RegisterBrokerBody, TopicConfig.encode, decode; docs/protocol.md#name-server.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Generator, Iterator
from typing import Final

import msgspec
from msgspec import field

from gantrymq.errors import LocalProtocolError, RemoteProtocolError
from gantrymq.message import flags
from gantrymq.message.sizes import MAX_FRAME_BYTES
from gantrymq.protocol import lenient_json
from gantrymq.protocol.body import DIALECT_BYTES, Body
from gantrymq.protocol.compression import decompress
from gantrymq.protocol.files.topics import DataVersion, TopicConfig, TopicTable

MAPPING_SINCE_VERSION: Final = 413
"""5.0.0: from this version of the sender on, the compressed form ends with the mappings of static topics."""
_INT: Final = struct.Struct(">i")


class RegisterBrokerBody(Body, frozen=True, kw_only=True):
    """Request body of REGISTER_BROKER."""

    topic_config_serialize_wrapper: TopicTable = TopicTable()
    filter_server_list: list[str] = field(default_factory=list)

    def encode_compressed(self, version: int) -> bytes:
        """The compressed form that a sender of protocol ``version`` writes."""
        table = self.topic_config_serialize_wrapper
        if table.topic_queue_mapping_info_map:
            raise LocalProtocolError("static topics cannot be registered in the compressed form")
        topics = list(table.topic_config_table.values())
        parts = [_with_length(table.data_version.encode()), _INT.pack(len(topics))]
        parts += [_with_length(topic_text(topic).encode()) for topic in topics]
        parts.append(_with_length(msgspec.json.encode(self.filter_server_list)))
        if version >= MAPPING_SINCE_VERSION:
            parts.append(_INT.pack(0))
        return zlib.compress(b"".join(parts))

    @staticmethod
    def encode_with(table: bytes) -> bytes:
        """The body with a TopicTable that is encoded already, and without filter servers."""
        return b'{"filterServerList":[],"topicConfigSerializeWrapper":%b}' % table

    @classmethod
    def decode_compressed(cls, data: bytes) -> RegisterBrokerBody:
        """Read the compressed form, without the mappings of static topics. Raises RemoteProtocolError when the bytes
        do not have this form."""
        version, read = topics_of_compressed(data)
        topics: dict[str, TopicConfig] = {}
        servers: list[str] = []
        steps = iter(read)
        while True:
            try:
                topic = next(steps)
            except StopIteration as end:
                servers = end.value
                break
            topics[topic.topic_name] = topic
        table = TopicTable(data_version=version, topic_config_table=topics)
        return cls(topic_config_serialize_wrapper=table, filter_server_list=servers)


class _UnreadTable(Body, frozen=True, kw_only=True):
    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, msgspec.Raw] = field(default_factory=dict)


class _Unread(Body, frozen=True, kw_only=True):
    """A RegisterBrokerBody whose topics are not read yet."""

    topic_config_serialize_wrapper: _UnreadTable = _UnreadTable()


def topics_of_json(data: bytes) -> tuple[DataVersion, Iterator[TopicConfig]]:
    """The version, and the topics, which are read one by one when there are many.

    Both raise RemoteProtocolError when the bytes do not have this form.
    """
    if len(data) <= DIALECT_BYTES:
        table = RegisterBrokerBody.of_request(data, MAX_FRAME_BYTES).topic_config_serialize_wrapper
        return table.data_version, iter(table.topic_config_table.values())
    unread = _Unread.of_request(data, MAX_FRAME_BYTES).topic_config_serialize_wrapper
    return unread.data_version, (TopicConfig.of_request(bytes(raw)) for raw in unread.topic_config_table.values())


def topics_of_compressed(data: bytes) -> tuple[DataVersion, Generator[TopicConfig, None, list[str]]]:
    """The version, and the topics one by one; what the generator returns are the filter servers.

    Both raise RemoteProtocolError when the bytes do not have this form.
    """
    plain = decompress(data, flags.COMPRESSED, MAX_FRAME_BYTES)
    version, position = _read(plain, 0)
    return DataVersion.decode(version), _topics_in(plain, position)


def _topics_in(plain: bytes, position: int) -> Generator[TopicConfig, None, list[str]]:
    count, position = _read_count(plain, position)
    for _ in range(count):
        raw, position = _read(plain, position)
        yield parse_topic_text(raw)
    servers, _ = _read(plain, position)
    try:
        return msgspec.convert(lenient_json.loads(servers) or [], list[str])
    except msgspec.ValidationError as error:
        raise RemoteProtocolError(f"malformed filter server list: {error}") from error


def topic_text(topic: TopicConfig) -> str:
    """``T 4 4 6 SINGLE_TAG {}``; without attributes (4.9) the last word is missing."""
    words = [
        topic.topic_name,
        str(topic.read_queue_nums),
        str(topic.write_queue_nums),
        str(topic.perm),
        topic.topic_filter_type,
    ]
    if topic.attributes is not None:
        words.append(msgspec.json.encode(topic.attributes, order="sorted").decode())
    return " ".join(words)


def parse_topic_text(raw: bytes) -> TopicConfig:
    """The opposite of :func:`topic_text`; raises RemoteProtocolError."""
    try:
        words = raw.decode().split(" ", 5)
        name, read_queues, write_queues, perm, filter_type = words[:5]
        fields: dict[str, object] = {
            "topicName": name,
            "readQueueNums": read_queues,
            "writeQueueNums": write_queues,
            "perm": perm,
            "topicFilterType": filter_type,
        }
        if len(words) > 5 and words[5]:
            fields["attributes"] = lenient_json.loads(words[5].encode())
        return msgspec.convert(fields, TopicConfig, strict=False)
    except (ValueError, msgspec.MsgspecError) as error:
        raise RemoteProtocolError(f"malformed topic {raw[:100]!r}: {error}") from error


def _with_length(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def _read_count(data: bytes, position: int) -> tuple[int, int]:
    try:
        (number,) = _INT.unpack_from(data, position)
    except struct.error as error:
        raise RemoteProtocolError(f"the compressed registration ends too early: {error}") from error
    if number < 0:
        raise RemoteProtocolError(f"the compressed registration has the negative length {number}")
    return number, position + _INT.size


def _read(data: bytes, position: int) -> tuple[bytes, int]:
    length, start = _read_count(data, position)
    if start + length > len(data):
        raise RemoteProtocolError("the compressed registration ends too early")
    return data[start : start + length], start + length
