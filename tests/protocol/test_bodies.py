"""JSON bodies: to bytes and back, in Java's dialect and in that of the Go client."""

from __future__ import annotations

import contextlib
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import LocalProtocolError, RemoteProtocolError
from gantrymq.message.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    ProducerData,
    SubscriptionData,
)
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.heartbeat import ConsumerIdList, HeartbeatData
from gantrymq.protocol.bodies.locks import LockBatch, LockBatchAnswer
from gantrymq.protocol.bodies.register import RegisterBrokerBody, parse_topic_text, topic_text
from gantrymq.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRoute
from gantrymq.protocol.bodies.topics import KVTable, TopicList
from gantrymq.protocol.body import Body
from gantrymq.protocol.files.topics import DataVersion, TopicConfig, TopicTable
from tests.protocol.structs import instances

NAME = st.text("abcXYZ%-_09", min_size=1, max_size=8)
BODIES = [
    TopicRoute,
    ClusterInfo,
    HeartbeatData,
    ConsumerIdList,
    TopicConfig,
    TopicTable,
    TopicList,
    KVTable,
    DataVersion,
    LockBatch,
    LockBatchAnswer,
    RegisterBrokerBody,
]
ANY_BODY = st.one_of([instances(kind) for kind in BODIES])


@given(ANY_BODY)
def test_bodies_survive(body: Body) -> None:
    assert type(body).decode(body.encode()) == body


@given(ANY_BODY)
def test_bodies_are_written_compact_and_in_order(body: Body) -> None:
    text = body.encode()
    assert json.dumps(json.loads(text), separators=(",", ":"), sort_keys=True) == json.dumps(
        json.loads(text), separators=(",", ":")
    )
    assert len(text) <= len(json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False).encode())


def test_absent_fields_are_left_out() -> None:
    assert TopicRoute().encode() == b'{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}'
    assert TopicList(topic_list=["T"]).encode() == b'{"topicList":["T"]}'


@given(st.sampled_from(BODIES), st.binary(max_size=50))
def test_any_bytes_decode_or_raise_the_documented_error(kind: type[Body], data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        kind.decode(data)


ROUTE_OF_4_9 = (
    b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a",'
    b'"cluster":"DefaultCluster"}],"filterServerTable":{},"orderTopicConf":"broker-a:4","queueDatas":[{"brokerName":'
    b'"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
)


def test_a_route_with_unquoted_broker_ids() -> None:
    route = TopicRoute.decode(ROUTE_OF_4_9)
    assert route.broker_datas == [
        BrokerData(
            broker_name="broker-a",
            broker_addrs={0: "10.0.0.1:10911", 1: "10.0.0.2:10911"},
            cluster="DefaultCluster",
        )
    ]
    assert route.broker_datas[0].master == "10.0.0.1:10911"
    assert BrokerData(broker_name="b", broker_addrs={1: "x"}).master is None
    assert route.order_topic_conf == "broker-a:4"
    assert route.queue_datas[0] == QueueData(
        broker_name="broker-a", read_queue_nums=4, write_queue_nums=4, perm=6, topic_sys_flag=0
    )
    assert route.encode() == ROUTE_OF_4_9.replace(b"{0:", b'{"0":').replace(b",1:", b',"1":')


def test_a_heartbeat_of_the_go_client() -> None:
    """Hashes of tags as texts, a version in nanoseconds, no fields of 5.x, null for an empty set."""
    heartbeat = HeartbeatData.decode(
        b'{"clientID":"10.0.0.9@77","producerDataSet":null,"consumerDataSet":[{"groupName":"CG","consumeType":'
        b'"CONSUME_PASSIVELY","messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
        b'"subscriptionDataSet":[{"classFilterMode":false,"topic":"T","subString":"TagA","tagsSet":["TagA"],'
        b'"codeSet":["2598919"],"subVersion":1700000000000000000,"expressionType":"TAG"}],"unitMode":false}]}'
    )
    assert heartbeat.producer_data_set == []
    (consumer,) = heartbeat.consumer_data_set
    assert consumer.subscription_data_set[0].code_set == [2598919]
    assert consumer.subscription_data_set[0].sub_version == 1700000000000000000
    assert heartbeat.heartbeat_fingerprint is None


def test_the_heartbeat_of_rocketmq() -> None:
    """Source: HeartbeatData."""
    subscription = SubscriptionData.of_tags("T", "TagB || TagA", 1700000000000)
    heartbeat = HeartbeatData(
        client_id="10.0.0.9@1234#56789",
        producer_data_set=[ProducerData(group_name="PG")],
        consumer_data_set=[
            ConsumerData(group_name="CG", subscription_data_set=[subscription], unit_mode=False),
        ],
        heartbeat_fingerprint=0,
        without_sub=False,
    )
    assert heartbeat.encode() == (
        b'{"clientID":"10.0.0.9@1234#56789","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
        b'"consumeType":"CONSUME_PASSIVELY","groupName":"CG","messageModel":"CLUSTERING","subscriptionDataSet":[{'
        b'"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG","subString":"TagB || TagA",'
        b'"subVersion":1700000000000,"tagsSet":["TagA","TagB"],"topic":"T"}],"unitMode":false}],'
        b'"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"PG"}],"withoutSub":false}'
    )


@pytest.mark.parametrize("expression", ["*", "", "  ", " * "])
def test_a_subscription_to_everything_has_no_codes(expression: str) -> None:
    subscription = SubscriptionData.of_tags("T", expression, 1)
    assert (subscription.sub_string, subscription.tags_set, subscription.code_set) == ("*", [], [])


def test_words_of_groups() -> None:
    assert ConsumeType("CONSUME_ACTIVELY") is ConsumeType.PULL
    assert MessageModel("BROADCASTING") is MessageModel.BROADCASTING
    assert ConsumeFromWhere("CONSUME_FROM_TIMESTAMP") is ConsumeFromWhere.TIMESTAMP
    with pytest.raises(RemoteProtocolError, match=r"malformed HeartbeatData body.*messageModel"):
        HeartbeatData.decode(b'{"clientID":"c","consumerDataSet":[{"groupName":"G","messageModel":"OTHER"}]}')


def test_a_data_version_grows() -> None:
    assert DataVersion(counter=1, timestamp=5).next(9) == DataVersion(counter=2, timestamp=9)
    assert DataVersion(state_version=0).next(9).state_version == 0


def test_queues_in_locks() -> None:
    queue = MessageQueue("T", "b", 3)
    request = LockBatch(client_id="c", consumer_group="G", mq_set=[queue])
    assert request.encode() == (
        b'{"clientId":"c","consumerGroup":"G","mqSet":[{"brokerName":"b","queueId":3,"topic":"T"}]}'
    )
    assert LockBatchAnswer(lock_ok_mq_set=[queue]).encode() == (
        b'{"lockOKMQSet":[{"brokerName":"b","queueId":3,"topic":"T"}]}'
    )


# --- registration -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ("T 4 8 6 SINGLE_TAG", None),
        ("T 4 8 6 SINGLE_TAG {}", {}),
        ('T 4 8 6 SINGLE_TAG {"message.type":"TRANSACTION"}', {"message.type": "TRANSACTION"}),
    ],
)
def test_topics_as_texts(text: str, attributes: dict[str, str] | None) -> None:
    topic = TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=8, perm=6, attributes=attributes)
    assert topic_text(topic) == text
    assert parse_topic_text(text.encode()) == topic


@pytest.mark.parametrize("text", [b"", b"T 4 4 6", b"T four 4 6 SINGLE_TAG", b"T 4 4 6 SINGLE_TAG {", b"\xff 1 1 1 S"])
def test_malformed_topic_texts_are_refused(text: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        parse_topic_text(text)


TOPICS = instances(
    TopicConfig,
    topic_name=NAME,
    topic_filter_type=st.sampled_from(["SINGLE_TAG", "MULTI_TAG"]),
    topic_sys_flag=st.just(0),
    order=st.just(False),
)
"""The text form of a topic has no place for its flags."""
REGISTRATIONS = instances(
    RegisterBrokerBody,
    topic_config_serialize_wrapper=instances(
        TopicTable,
        topic_config_table=st.lists(TOPICS, max_size=4).map(lambda topics: {each.topic_name: each for each in topics}),
        mapping_data_version=st.none(),
        topic_queue_mapping_detail_map=st.none(),
        topic_queue_mapping_info_map=st.none(),
    ),
)


@given(REGISTRATIONS, st.sampled_from([409, 513]))
def test_compressed_registrations_survive(body: RegisterBrokerBody, version: int) -> None:
    assert RegisterBrokerBody.decode_compressed(body.encode_compressed(version)) == body


@given(REGISTRATIONS, st.data())
def test_cut_or_damaged_registrations_raise_the_documented_error(body: RegisterBrokerBody, data: st.DataObject) -> None:
    plain = bytearray(zlib.decompress(body.encode_compressed(409)))
    position = data.draw(st.integers(0, len(plain) - 1))
    with pytest.raises(RemoteProtocolError):
        RegisterBrokerBody.decode_compressed(zlib.compress(plain[:position]))
    plain[position] = data.draw(st.integers(0, 255))
    with contextlib.suppress(RemoteProtocolError):
        RegisterBrokerBody.decode_compressed(zlib.compress(plain))


@given(st.binary(max_size=50))
def test_any_bytes_are_a_compressed_registration_or_raise_the_documented_error(data: bytes) -> None:
    for text in (data, zlib.compress(data)):
        with contextlib.suppress(RemoteProtocolError):
            RegisterBrokerBody.decode_compressed(text)


def test_the_filter_server_list_must_be_one() -> None:
    def parts(servers: bytes) -> bytes:
        return b"\0\0\0\2{}" + bytes(4) + len(servers).to_bytes(4, "big") + servers

    assert RegisterBrokerBody.decode_compressed(zlib.compress(parts(b"null"))).filter_server_list == []
    assert RegisterBrokerBody.decode_compressed(zlib.compress(parts(b'["a"]'))).filter_server_list == ["a"]
    with pytest.raises(RemoteProtocolError, match="filter server list"):
        RegisterBrokerBody.decode_compressed(zlib.compress(parts(b"[1]")))


def test_static_topics_do_not_fit_the_compressed_form() -> None:
    body = RegisterBrokerBody(topic_config_serialize_wrapper=TopicTable(topic_queue_mapping_info_map={"T": {}}))
    with pytest.raises(LocalProtocolError, match="static topics"):
        body.encode_compressed(513)
