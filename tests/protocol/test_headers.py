"""Every typed header: to extension fields and back, in both serializations."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import RemoteProtocolError
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, Header, SerializeType, decode_command, encode_request, ext_of
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.registry import ANSWER_HEADERS, REQUEST_HEADERS
from gantrymq.protocol.headers.send import SendMessage, SendMessageLong
from tests.protocol.structs import TEXT, instances

KINDS = sorted({*REQUEST_HEADERS.values(), *ANSWER_HEADERS.values()}, key=lambda kind: kind.__name__)
ANY_HEADER = st.one_of([instances(kind) for kind in KINDS])


def through_the_wire(header: Header, serialize: SerializeType) -> Command:
    frame = encode_request(1, 1, header, serialize=serialize)
    ((serialization, raw, body),) = FrameSplitter().feed(frame)
    return decode_command(serialization, raw, body)


@given(ANY_HEADER, st.sampled_from(list(SerializeType)))
def test_headers_survive_the_wire(header: Header, serialize: SerializeType) -> None:
    command = through_the_wire(header, serialize)
    assert command.header(type(header)) == header
    assert command.ext_fields() == ext_of(header)
    assert all(isinstance(value, str) for value in ext_of(header).values())


@given(ANY_HEADER, st.dictionaries(st.text(min_size=20, max_size=25), TEXT, max_size=3))
def test_fields_that_nobody_knows_are_ignored(header: Header, extra: dict[str, str]) -> None:
    assert Command(code=1, ext=ext_of(header) | extra).header(type(header)) == header


@given(st.sampled_from(KINDS), st.data())
def test_any_extension_fields_are_read_or_raise_the_documented_error(kind: type[Header], data: st.DataObject) -> None:
    names = st.sampled_from(kind.__struct_encode_fields__)
    ext = data.draw(st.dictionaries(names, st.text(max_size=5) | st.integers().map(str), max_size=12))
    with contextlib.suppress(RemoteProtocolError):
        Command(code=1, ext=ext).header(kind)


@given(ANY_HEADER, st.data())
def test_a_missing_mandatory_field_is_named(header: Header, data: st.DataObject) -> None:
    mandatory = mandatory_fields(type(header))
    ext = ext_of(header)
    if not mandatory:
        return
    del ext[lost := data.draw(st.sampled_from(mandatory))]
    with pytest.raises(RemoteProtocolError, match=f"`{lost}`"):
        Command(code=1, ext=ext).header(type(header))


def mandatory_fields(kind: type[Header]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind) if field.required]


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (
            RequestCode.SEND_MESSAGE,
            "producerGroup topic defaultTopic defaultTopicQueueNums queueId sysFlag bornTimestamp flag",
        ),
        (RequestCode.SEND_MESSAGE_V2, "a b c d e f g h"),
        (RequestCode.SEND_BATCH_MESSAGE, "a b c d e f g h"),
        (
            RequestCode.PULL_MESSAGE,
            "consumerGroup topic queueId queueOffset maxMsgNums sysFlag commitOffset suspendTimeoutMillis subVersion",
        ),
        (RequestCode.QUERY_MESSAGE, "topic key maxNum beginTimestamp endTimestamp"),
        (RequestCode.QUERY_CONSUMER_OFFSET, "consumerGroup topic queueId"),
        (RequestCode.UPDATE_CONSUMER_OFFSET, "consumerGroup topic queueId commitOffset"),
        (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, "topic queueId timestamp"),
        (RequestCode.GET_MAX_OFFSET, "topic queueId"),
        (RequestCode.GET_MIN_OFFSET, "topic queueId"),
        (RequestCode.GET_EARLIEST_MSG_STORETIME, "topic queueId"),
        (RequestCode.VIEW_MESSAGE_BY_ID, "offset"),
        (RequestCode.UNREGISTER_CLIENT, "clientID"),
        (RequestCode.CONSUMER_SEND_MSG_BACK, "offset group delayLevel"),
        (RequestCode.END_TRANSACTION, "producerGroup tranStateTableOffset commitLogOffset commitOrRollback msgId"),
        (RequestCode.GET_CONSUMER_LIST_BY_GROUP, "consumerGroup"),
        (RequestCode.CHECK_TRANSACTION_STATE, "tranStateTableOffset commitLogOffset"),
        (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, "consumerGroup"),
        (
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            "topic defaultTopic readQueueNums writeQueueNums perm topicFilterType order",
        ),
        (RequestCode.REGISTER_BROKER, "brokerName brokerAddr clusterName haServerAddr brokerId"),
        (RequestCode.UNREGISTER_BROKER, "brokerName brokerAddr clusterName brokerId"),
        (RequestCode.QUERY_DATA_VERSION, "brokerName brokerAddr clusterName brokerId"),
        (RequestCode.GET_ROUTEINFO_BY_TOPIC, "topic"),
    ],
)
def test_mandatory_fields_are_those_of_rocketmq(code: RequestCode, fields: str) -> None:
    """Source: the fields marked with @CFNotNull in RocketMQ's header classes."""
    assert mandatory_fields(REQUEST_HEADERS[code]) == fields.split()


def test_both_forms_of_a_send_have_the_same_fields() -> None:
    """So the broker handles codes 10 and 310 alike."""
    assert SendMessage.__struct_fields__ == SendMessageLong.__struct_fields__
    assert SendMessage.__struct_encode_fields__ == tuple("abcdefghijklmn")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_headers_are_frozen(kind: Any) -> None:
    assert kind.__struct_config__.frozen
