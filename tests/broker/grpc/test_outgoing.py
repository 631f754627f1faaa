"""What a client receives is what the sender gave, whoever that was, and nothing of the broker's own."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.broker.grpc.incoming import submission_of
from gantrymq.broker.grpc.outgoing import message_of
from gantrymq.grpc.definition_pb2 import Encoding, MessageType
from gantrymq.message import flags, properties
from gantrymq.message.message import StoredMessage
from gantrymq.protocol import compression
from tests.support.grpc_client import message


def stored(text: str, body: bytes = b"x", sys_flag: int = 0) -> StoredMessage:
    return StoredMessage(
        topic="orders", queue_id=3, queue_offset=7, log_offset=1000, size=100, flag=0, sys_flag=sys_flag,
        born_timestamp=1_700_000_000_123, born_host="10.0.0.1:5", store_timestamp=1_700_000_000_456,
        store_host="10.0.0.2:10911", reconsume_times=2, prepared_transaction_offset=0, body_crc=0, body=body,
        properties_text=text,
    )  # fmt: skip


names = st.text(st.characters(max_codepoint=0x3FF, categories=["L", "N", "P"]), min_size=1, max_size=9)


@given(st.dictionaries(names.filter(lambda name: name not in properties.RESERVED), names, max_size=5), names)
def test_a_message_comes_as_it_was_sent(user: dict[str, str], tag: str) -> None:
    sent = message(
        "orders", b"body", tag=tag.replace("|", "x"), keys=["k1", "k2"], message_group="g", trace_context="t"
    )
    sent.user_properties.update({name: value for name, value in user.items() if name not in properties.OF_ONE_DELIVERY})
    got = message_of(stored(submission_of(sent, 100).properties or "", b"body"), "orders")
    assert got.user_properties == sent.user_properties
    for field in ("tag", "keys", "message_group", "trace_context", "message_id"):
        assert getattr(got.system_properties, field) == getattr(sent.system_properties, field)
    assert got.body == b"body"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"traceparent": "00-a-b-01"}, "00-a-b-01"),
        ({"traceparent": "00-a-b-01", "TRACE_CONTEXT": "other"}, "other"),
        ({}, ""),
    ],
)
def test_the_trace_of_a_client_of_remoting_goes_on(values: dict[str, str], told: str) -> None:
    got = message_of(stored(properties.encode({"UNIQ_KEY": "id", **values})), "orders")
    assert got.system_properties.trace_context == told
    assert got.user_properties.get("traceparent") == values.get("traceparent"), "a property of the sender, too"


def test_what_the_broker_added_is_not_told() -> None:
    text = properties.encode(
        {"own": "1", "UNIQ_KEY": "id", "MSG_REGION": "r", "TRACE_ON": "true", "CLUSTER": "c", "POP_CK": "x",
         "1ST_POP_TIME": "5", "GANTRY_SENDING_CLIENT": "c", "TRAN_MSG": "true", "PGROUP": "g"}
    )  # fmt: skip
    assert dict(message_of(stored(text), "orders").user_properties) == {"own": "1"}


def test_the_body_is_decompressed_and_its_digest_is_right() -> None:
    body = b"hello " * 1000
    got = message_of(stored("", compression.compress(body), compression.SENT_FLAGS | flags.COMPRESSED), "orders")
    assert (got.body, got.system_properties.body_encoding) == (body, Encoding.IDENTITY)
    assert got.system_properties.body_digest.checksum == hashlib.md5(body).hexdigest().upper()


def test_times_places_and_attempts_are_told() -> None:
    system = message_of(stored(properties.encode({"DELAY": "3"})), "orders").system_properties
    assert system.message_type == MessageType.DELAY
    assert (system.born_timestamp.seconds, system.born_timestamp.nanos) == (1_700_000_000, 123_000_000)
    assert (system.queue_id, system.queue_offset, system.delivery_attempt) == (3, 7, 3)
    assert system.message_id == "0A0000020000" + "2A9F" + "00000000000003E8"


@pytest.mark.parametrize(("text", "told"), [("0", 0), ("7", 7), ("-1", None), ("high", None), (str(2**31), None)])
def test_a_priority_is_told_if_it_is_one(text: str, told: int | None) -> None:
    system = message_of(stored(properties.encode({properties.PRIORITY: text})), "orders").system_properties
    assert (system.priority if system.HasField("priority") else None) == told
