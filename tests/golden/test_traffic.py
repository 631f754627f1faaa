"""Everything real RocketMQ processes said to each other is understood, and said again in the same words."""

from __future__ import annotations

import zlib
from collections import defaultdict
from typing import Any

import pytest

from gantrymq.message import flags, properties
from gantrymq.protocol import lenient_json, stored_message
from gantrymq.protocol.batch import split_batch
from gantrymq.protocol.bodies.groups import GroupList
from gantrymq.protocol.bodies.heartbeat import ConsumerIdList, HeartbeatData
from gantrymq.protocol.bodies.locks import LockBatch, LockBatchAnswer
from gantrymq.protocol.bodies.progress import (
    ConsumerConnections,
    ConsumerRunning,
    ConsumeStats,
    OffsetsByQueue,
    ProducerConnections,
    TopicStats,
)
from gantrymq.protocol.bodies.register import RegisterBrokerBody
from gantrymq.protocol.bodies.route import ClusterInfo, TopicRoute
from gantrymq.protocol.bodies.topics import KVTable, TopicList
from gantrymq.protocol.body import Body
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import encode_command, ext_of
from gantrymq.protocol.files.topics import DataVersion, TopicConfig
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.registry import ANSWER_HEADERS, REQUEST_HEADERS
from gantrymq.protocol.message_ids import parse_offset_message_id
from tests.golden.recorded import SCENARIOS, Recorded, everything, scenario

WITHOUT_HEADER = {
    RequestCode.GET_BROKER_RUNTIME_INFO,
    RequestCode.HEART_BEAT,
    RequestCode.LOCK_BATCH_MQ,
    RequestCode.UNLOCK_BATCH_MQ,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
}
"""Requests that carry no extension fields, or only those that hooks add."""

GENERIC: set[RequestCode] = set()
"""Those without a typed header yet; they are read as plain commands."""

HOOKS = {"ReqT"}
"""Extension fields that a hook of the client adds to any request (lite pull and pull consumers)."""

PULLS = {RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE}
PULLED = {
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
}

REQUEST_BODIES: dict[int, type[Body]] = {
    RequestCode.HEART_BEAT: HeartbeatData,
    RequestCode.LOCK_BATCH_MQ: LockBatch,
    RequestCode.UNLOCK_BATCH_MQ: LockBatch,
    RequestCode.REGISTER_BROKER: RegisterBrokerBody,
    RequestCode.QUERY_DATA_VERSION: DataVersion,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: OffsetsByQueue,
}
ANSWER_BODIES: dict[int, type[Body]] = {
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: ConsumerIdList,
    RequestCode.LOCK_BATCH_MQ: LockBatchAnswer,
    RequestCode.REGISTER_BROKER: KVTable,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: TopicRoute,
    RequestCode.GET_BROKER_CLUSTER_INFO: ClusterInfo,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: TopicList,
    RequestCode.QUERY_DATA_VERSION: DataVersion,
    RequestCode.GET_BROKER_RUNTIME_INFO: KVTable,
    RequestCode.GET_TOPIC_CONFIG: TopicConfig,
    RequestCode.GET_TOPIC_STATS_INFO: TopicStats,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: ConsumerConnections,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: ProducerConnections,
    RequestCode.GET_CONSUME_STATS: ConsumeStats,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: OffsetsByQueue,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: GroupList,
    RequestCode.GET_CONSUMER_RUNNING_INFO: ConsumerRunning,
}
OTHER_JSON_BODIES = {RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP}
"""Typed, but written with the fields of 5.x whatever was read."""

RECORD_BODIES = {
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.QUERY_MESSAGE,
    RequestCode.VIEW_MESSAGE_BY_ID,
    RequestCode.CHECK_TRANSACTION_STATE,
}

every_scenario = pytest.mark.parametrize("name", SCENARIOS)


def is_compressed(recorded: Recorded) -> bool:
    # 5.5.0 says compressed=false about a compressed registration (a defect); so look at the body.
    return recorded.asked == RequestCode.REGISTER_BROKER and not recorded.is_response and recorded.body[:1] != b"{"


def names(recorded: Recorded) -> str:
    return f"frame {recorded.n}: {recorded.kind} {recorded.asked}"


def parts(frame: bytes) -> tuple[bytes, bytes]:
    body_start = 8 + (int.from_bytes(frame[4:8], "big") & 0xFFFFFF)
    return frame[8:body_start], frame[body_start:]


def test_the_recordings_are_here() -> None:
    assert len(SCENARIOS) == 27
    assert len(everything()) == 3433


@every_scenario
def test_every_frame_decodes_to_what_was_recorded_and_encodes_to_the_same_bytes(name: str) -> None:
    for recorded in scenario(name):
        command = recorded.command()
        assert command.code == recorded.code, names(recorded)
        assert command.opaque == recorded.opaque
        assert command.is_response == recorded.is_response
        assert command.is_one_way == (recorded.kind == "oneway")
        assert command.language == recorded.header["language"]
        assert command.version == recorded.header["version"]
        assert command.remark == recorded.header.get("remark")
        assert command.ext_fields() == recorded.header.get("extFields", {})
        assert list(command.ext_fields()) == list(recorded.header.get("extFields", {})), "the order of the wire is kept"
        assert len(command.body) == recorded.body_len
        assert encode_command(command) == recorded.bytes, names(recorded)


@every_scenario
def test_a_whole_connection_splits_into_the_same_frames_wherever_it_is_cut(name: str) -> None:
    directions: dict[tuple[int, str], list[bytes]] = defaultdict(list)
    for recorded in scenario(name):
        directions[recorded.conn, recorded.sender].append(recorded.bytes)
    for step in (7, 61, 1448):
        for frames in directions.values():
            stream = b"".join(frames)
            splitter = FrameSplitter()
            got = []
            for start in range(0, len(stream), step):
                got += splitter.feed(stream[start : start + step])
            assert [(header, body) for _, header, body in got] == [parts(frame) for frame in frames]
            assert splitter.pending_bytes == 0


def test_every_recorded_request_is_typed_or_listed_as_generic() -> None:
    observed = {recorded.asked for recorded in everything()}
    assert observed <= set(REQUEST_HEADERS) | WITHOUT_HEADER | GENERIC
    assert not set(REQUEST_HEADERS) & (WITHOUT_HEADER | GENERIC), "typed meanwhile: take it off the list"
    assert not WITHOUT_HEADER & GENERIC


@every_scenario
def test_extension_fields_of_requests_survive_their_typed_header(name: str) -> None:
    for recorded in scenario(name):
        if recorded.is_response:
            continue
        command = recorded.command()
        ext = {key: value for key, value in command.ext_fields().items() if key not in HOOKS}
        if recorded.asked in WITHOUT_HEADER:
            assert ext == {}, names(recorded)
        elif recorded.asked not in GENERIC:
            assert ext_of(command.header(REQUEST_HEADERS[RequestCode(recorded.asked)])) == ext, names(recorded)


@every_scenario
def test_extension_fields_of_answers_survive_their_typed_header(name: str) -> None:
    for recorded in scenario(name):
        if not recorded.is_response:
            continue
        command = recorded.command()
        kind = ANSWER_HEADERS.get(RequestCode(recorded.asked))
        if recorded.asked in GENERIC:
            continue
        if kind is None:
            assert command.ext_fields() == {}, names(recorded)
        elif recorded.code == ResponseCode.SUCCESS or (recorded.asked in PULLS and recorded.code in PULLED):
            assert ext_of(command.header(kind)) == command.ext_fields(), names(recorded)


@every_scenario
def test_json_bodies_survive_their_types(name: str) -> None:
    for recorded in scenario(name):
        if not recorded.body_len or is_compressed(recorded):
            continue
        kind = (ANSWER_BODIES if recorded.is_response else REQUEST_BODIES).get(recorded.asked)
        if kind is not None:
            assert lenient_json.loads(kind.decode(recorded.body).encode()) == lenient_json.loads(recorded.body)
        elif recorded.asked in OTHER_JSON_BODIES:
            assert isinstance(lenient_json.loads(recorded.body), dict | list)


def test_bodies_without_integer_keys_come_out_byte_for_byte() -> None:
    identical: dict[str, int] = defaultdict(int)
    for recorded in everything():
        kind = (ANSWER_BODIES if recorded.is_response else REQUEST_BODIES).get(recorded.asked)
        if kind is not None and recorded.body_len and not is_compressed(recorded):
            identical[kind.__name__] += kind.decode(recorded.body).encode() == recorded.body
    assert identical["HeartbeatData"] == 120
    assert identical["TopicRoute"] == 285
    assert identical["ConsumerIdList"] == 66
    assert identical["LockBatch"] == 40 + 4


def test_every_body_is_of_a_known_kind() -> None:
    known = {*RECORD_BODIES, *OTHER_JSON_BODIES}
    for recorded in everything():
        if recorded.body_len:
            typed = ANSWER_BODIES if recorded.is_response else REQUEST_BODIES
            sends = {RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
            assert recorded.asked in known | set(typed) | sends, names(recorded)


def test_compressed_registrations_hold_the_same_topics_again() -> None:
    found = 0
    for recorded in everything():
        if is_compressed(recorded):
            found += 1
            body = RegisterBrokerBody.decode_compressed(recorded.body)
            assert body.topic_config_serialize_wrapper.topic_config_table
            again = body.encode_compressed(recorded.header["version"])
            assert zlib.decompress(again) == zlib.decompress(recorded.body)
    assert found == 6


@every_scenario
def test_registration_bodies_match_their_crc(name: str) -> None:
    for recorded in scenario(name):
        if recorded.asked == RequestCode.REGISTER_BROKER and not recorded.is_response:
            crc = int(recorded.header["extFields"]["bodyCrc32"])
            assert crc in (0, zlib.crc32(recorded.body) & stored_message.CRC_MASK), names(recorded)


@every_scenario
def test_carried_records_encode_to_the_same_bytes(name: str) -> None:
    for recorded in scenario(name):
        if recorded.asked in RECORD_BODIES and recorded.body_len:
            messages = list(stored_message.scan(recorded.body))
            assert messages
            assert b"".join(stored_message.encode_stored(message) for message in messages) == recorded.body
            for message in messages:
                view = stored_message.to_view(message, "broker-a")
                assert view.body
                assert parse_offset_message_id(view.offset_message_id) == (message.store_host, message.log_offset)


@every_scenario
def test_batches_split_into_their_messages(name: str) -> None:
    for recorded in scenario(name):
        if recorded.asked == RequestCode.SEND_BATCH_MESSAGE and not recorded.is_response:
            items = split_batch(recorded.body)
            assert len(items) in (2, 3)
            assert all(item.body and properties.find(item.properties_text, properties.UNIQ_KEY) for item in items)


@every_scenario
def test_property_texts_survive_up_to_the_last_separator(name: str) -> None:
    for recorded in scenario(name):
        if recorded.asked == RequestCode.SEND_MESSAGE_V2 and not recorded.is_response:
            text = recorded.header["extFields"]["i"]
            assert properties.encode(properties.decode(text)).rstrip("\x02") == text.rstrip("\x02")


def test_flags_of_sent_messages() -> None:
    """A half message is marked twice, and a compressed one says how (5000 bytes of body were sent)."""
    kinds: set[int] = set()
    for recorded in everything():
        if recorded.asked == RequestCode.SEND_MESSAGE_V2 and not recorded.is_response:
            fields: dict[str, Any] = recorded.header["extFields"]
            sys_flag = int(fields["f"])
            half = properties.find(fields["i"], properties.TRANSACTION_PREPARED) == "true"
            assert half == (flags.transaction_type(sys_flag) == flags.PREPARED)
            kinds.add(sys_flag)
    assert kinds == {0, flags.PREPARED, flags.COMPRESSED | flags.COMPRESSION_ZLIB, 0x301 | flags.PREPARED}
