"""The cases of ``tests.fuzz.sizes``, in the order in which they are played."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from gantrymq.message.heartbeat import ConsumerData, ProducerData, SubscriptionData
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.message.transaction import HalfEnd
from gantrymq.protocol.batch import encode_batch
from gantrymq.protocol.bodies.groups import GroupConfigList
from gantrymq.protocol.bodies.heartbeat import CheckClient, HeartbeatData
from gantrymq.protocol.bodies.locks import LockBatch
from gantrymq.protocol.bodies.pop import BatchAckItem, BatchAckRequest
from gantrymq.protocol.bodies.register import RegisterBrokerBody
from gantrymq.protocol.bodies.topics import TopicConfigList
from gantrymq.protocol.codes import RequestCode as Code
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.files.topics import DataVersion, TopicConfig, TopicTable
from gantrymq.protocol.halves import encode_ends
from gantrymq.protocol.headers import consumer, nameserver, pop, pull, tools, topics, transaction
from tests.fuzz.sizes import Bench, shown
from tests.support.brokers import pull_header, send_header

Case = Callable[[Bench], Awaitable[str]]
CASES: Final[dict[str, Case]] = {}
QUEUES: Final = 1024


def case(name: str) -> Callable[[Case], Case]:
    def kept(work: Case) -> Case:
        CASES[name] = work
        return work

    return kept


def create_topic(name: str, queues: int) -> topics.CreateTopic:
    return topics.CreateTopic(
        topic=name, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=6,
        topic_filter_type="SINGLE_TAG", order=False,
    )  # fmt: skip


def _item(text: str) -> bytes:
    """A message of a batch with properties that clients set for themselves."""
    data = text.encode()
    return struct.pack(">iiiii", 23 + len(data), 0, 0, 0, 1) + b"x" + struct.pack(">h", len(data)) + data


# Selectors.


def selector_case(name: str, text: Callable[[Bench], str]) -> None:
    async def check(on: Bench) -> str:
        data = SubscriptionData(topic="TBW102", sub_string=text(on), expression_type="SQL92")
        return shown(await on.ask(
            Code.CHECK_CLIENT_CONFIG, None, CheckClient(client_id="c", group="G", subscription_data=data).encode()
        ))  # fmt: skip

    CASES[f"selector: {name}"] = check


selector_case("terms joined by OR", lambda on: " OR ".join(f"a = {n}" for n in range(on.size(100_000))))
selector_case("terms joined by AND", lambda on: " AND ".join(f"a{n} > {n}" for n in range(on.size(100_000))))
selector_case(
    "IN with many texts", lambda on: f"a IN ({','.join(f'{n:x}'.join(chr(39) * 2) for n in range(on.size(300_000)))})"
)
selector_case("a long text", lambda on: f"a = '{'x' * on.size(8_000_000)}'")
selector_case("long blanks and comments", lambda on: "a = 1" + " /* x */" * on.size(1_000_000))
selector_case("brackets", lambda on: "(" * on.size(1_000_000) + "a" + ")" * on.size(1_000_000))
selector_case("signs", lambda on: "a = " + "- " * on.size(1_000_000) + "1")
selector_case("quotes in a text", lambda on: "a = '" + "''" * on.size(4_000_000) + "'")
selector_case("comparisons of comparisons", lambda on: " = ".join(["a"] * on.size(1_000_000)))
selector_case("a long name", lambda on: "a" * on.size(8_000_000) + " = 1")
selector_case("digits of a number", lambda on: "a = 1" + "0" * on.size(4_000_000))
selector_case("tokens that end nowhere", lambda on: "/*" * on.size(1_000_000) + "a")
selector_case("a quote that ends nowhere", lambda on: "a = '" + "x" * on.size(4_000_000))


@case("selector: in a pull")
async def selector_in_pull(on: Bench) -> str:
    text = " OR ".join(f"a = {n}" for n in range(on.size(100_000)))
    await on.ask(Code.SEND_MESSAGE_V2, send_header("One"), b"x")
    return shown(await on.ask(Code.PULL_MESSAGE, pull_header("One", subscription=text, expression_type="SQL92")))


@case("selector: tags joined by ||")
async def tags_in_pull(on: Bench) -> str:
    text = " || ".join(f"T{n}" for n in range(on.size(1_000_000)))
    await on.ask(Code.SEND_MESSAGE_V2, send_header("One"), b"x")
    return shown(await on.ask(Code.PULL_MESSAGE, pull_header("One", subscription=text)))


@case("selector: a large one on a queue of messages with large properties")
async def selector_on_messages(on: Bench) -> str:
    text = " OR ".join(f"a{n} = {n}" for n in range(1, 200))
    large = "".join(f"p{n}\x01{n}\x02" for n in range(3_000))[:30_000]
    for _ in range(on.size(300)):
        await on.ask(Code.SEND_MESSAGE_V2, send_header("Wide", properties=large), b"x")
    header = pull_header("Wide", subscription=text, expression_type="SQL92", max_msg_nums=1_000_000)
    return shown(await on.ask(Code.PULL_MESSAGE, header))


# Messages.


@case("send: a body of 4 MB")
async def large_body(on: Bench) -> str:
    return shown(await on.ask(Code.SEND_MESSAGE_V2, send_header("One"), b"x" * on.size(4_000_000)))


@case("send: a body of 15 MB")
async def too_large_body(on: Bench) -> str:
    return shown(await on.ask(Code.SEND_MESSAGE_V2, send_header("One"), b"x" * on.size(15_000_000)))


@case("send: properties of 15 MB")
async def large_properties(on: Bench) -> str:
    text = "".join(f"p{n}\x01{n}\x02" for n in range(on.size(1_000_000)))
    return shown(await on.ask(Code.SEND_MESSAGE_V2, send_header("One", properties=text), b"x"))


@case("send: fields in the header")
async def many_fields(on: Bench) -> str:
    extra = {f"field{n}": "x" for n in range(on.size(500_000))}
    return shown(await on.ask(Code.SEND_MESSAGE_V2, send_header("One"), b"x", extra=extra))


@case("send: keys of one message")
async def many_keys(on: Bench) -> str:
    text = "KEYS\x01" + " ".join(f"{n:x}" for n in range(on.size(6_000))) + "\x02"
    return shown(await on.ask(Code.SEND_MESSAGE_V2, send_header("One", properties=text), b"x"))


@case("send: a batch of small messages")
async def batch(on: Bench) -> str:
    body = encode_batch([Message("One", b"x") for _ in range(on.size(150_000))])
    return shown(await on.ask(Code.SEND_BATCH_MESSAGE, send_header("One", batch=True), body))


@case("send: a batch of small messages in 16 MB")
async def too_large_batch(on: Bench) -> str:
    body = encode_batch([Message("One", b"x") for _ in range(on.size(600_000))])
    return shown(await on.ask(Code.SEND_BATCH_MESSAGE, send_header("One", batch=True), body))


@case("send: 100,000 requests in one write")
async def many_sends(on: Bench) -> str:
    found = await asyncio.gather(
        *(on.ask(Code.SEND_MESSAGE_V2, send_header("One"), b"x") for _ in range(on.size(100_000)))
    )
    return f"{len(found)} answers, {shown(found[-1])}"


@case("send: half messages of one request")
async def halves(on: Bench) -> str:
    text = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01K\x02"
    items = [_item(f"TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01K{n}\x02") for n in range(on.size(40_000))]
    header = send_header("One", properties=text, sys_flag=4)
    return shown(await on.ask(Code.SEND_HALVES, header, b"".join(items)))


@case("end: half messages of one request")
async def ends(on: Bench) -> str:
    body = encode_ends([HalfEnd(n, n * 100, f"K{n}") for n in range(on.size(400_000))])
    header = transaction.EndHalves(producer_group="PG", commit_or_rollback=8)
    return shown(await on.ask(Code.END_HALVES, header, body))


@case("pull: 1,000,000 messages")
async def large_pull(on: Bench) -> str:
    return shown(await on.ask(Code.PULL_MESSAGE, pull_header("One", max_msg_nums=1_000_000, max_msg_bytes=1 << 30)))


@case("pull: a tag that no message has")
async def pull_nothing(on: Bench) -> str:
    return shown(await on.ask(Code.PULL_MESSAGE, pull_header("One", max_msg_nums=32, subscription="NoSuchTag")))


@case("pull: a selector that matches no message")
async def pull_no_match(on: Bench) -> str:
    header = pull_header("One", subscription="nosuch = 1", expression_type="SQL92", max_msg_nums=1_000_000)
    return shown(await on.ask(Code.PULL_MESSAGE, header))


@case("pop: 1,000,000 messages")
async def large_pop(on: Bench) -> str:
    header = pop.PopMessage(
        consumer_group="Popping", topic="One", queue_id=-1, max_msg_nums=1_000_000, invisible_time=60_000, poll_time=0,
        born_time=0, init_mode=1,
    )  # fmt: skip
    return shown(await on.ask(Code.POP_MESSAGE, header))


@case("pop: a batch of acks with large bit sets")
async def batch_ack(on: Bench) -> str:
    bits = b"\xff" * on.size(8_000_000)
    ack = BatchAckItem(
        consumer_group="Popping", topic="One", start_offset=0, queue_id=0, revive_queue_id=0, pop_time=1,
        invisible_time=60_000, bit_set=bits,
    )  # fmt: skip
    return shown(await on.ask(Code.BATCH_ACK_MESSAGE, None, BatchAckRequest(acks=[ack]).encode()))


@case("pop: a batch of many acks")
async def many_acks(on: Bench) -> str:
    acks = [
        BatchAckItem(
            consumer_group="Popping", topic="One", start_offset=n, queue_id=0, revive_queue_id=0, pop_time=1,
            invisible_time=60_000, bit_set=b"\x01",
        )
        for n in range(on.size(100_000))
    ]  # fmt: skip
    return shown(await on.ask(Code.BATCH_ACK_MESSAGE, None, BatchAckRequest(acks=acks).encode()))


@case("query: 1,000,000 messages of one key")
async def query(on: Bench) -> str:
    for _ in range(on.size(3_000)):
        await on.ask(Code.SEND_MESSAGE_V2, send_header("One", properties="KEYS\x01same\x02"), b"x")
    header = pull.QueryMessage(
        topic="One", key="same", max_num=1_000_000, begin_timestamp=0, end_timestamp=1 << 62
    )  # fmt: skip
    return shown(await on.ask(Code.QUERY_MESSAGE, header))


@case("queue: 1,000,000 entries of a consume queue")
async def queue_entries(on: Bench) -> str:
    header = tools.QueryConsumeQueue(topic="One", queue_id=0, index=0, count=1_000_000)
    return shown(await on.ask(Code.QUERY_CONSUME_QUEUE, header))


# Clients.


@case("heartbeat: groups of consumers")
async def consumer_groups(on: Bench) -> str:
    groups = [
        ConsumerData(group_name=f"HG{n}", subscription_data_set=[SubscriptionData(topic="One")])
        for n in range(on.size(40_000))
    ]
    body = HeartbeatData(client_id="many", consumer_data_set=groups).encode()
    return shown(await on.ask(Code.HEART_BEAT, None, body))


@case("heartbeat: groups of producers")
async def producer_groups(on: Bench) -> str:
    groups = [ProducerData(group_name=f"PG{n}") for n in range(on.size(400_000))]
    return shown(
        await on.ask(Code.HEART_BEAT, None, HeartbeatData(client_id="many", producer_data_set=groups).encode())
    )


@case("heartbeat: subscriptions of one group")
async def subscriptions(on: Bench) -> str:
    data = [SubscriptionData(topic=f"Sub{n}") for n in range(on.size(80_000))]
    group = ConsumerData(group_name="Wide", subscription_data_set=data)
    body = HeartbeatData(client_id="wide", consumer_data_set=[group]).encode()
    return shown(await on.ask(Code.HEART_BEAT, None, body))


@case("heartbeat: selectors of one group")
async def selectors(on: Bench) -> str:
    data = [
        SubscriptionData(topic=f"Sub{n}", sub_string=f"a = {n}", expression_type="SQL92", sub_version=1)
        for n in range(on.size(80_000))
    ]
    group = ConsumerData(group_name="Selecting", subscription_data_set=data)
    body = HeartbeatData(client_id="selecting", consumer_data_set=[group]).encode()
    return shown(await on.ask(Code.HEART_BEAT, None, body))


@case("heartbeat: a body in Java's dialect")
async def lenient(on: Bench) -> str:
    body = b'{"clientID":"java","consumerDataSet":[],"x":{' + b",".join(
        b"%d:[1,2,{3:4}]" % n for n in range(on.size(500_000))
    ) + b"}}"  # fmt: skip
    return shown(await on.ask(Code.HEART_BEAT, None, body))


@case("heartbeat: nested brackets")
async def nested(on: Bench) -> str:
    body = b'{"clientID":"java","x":' + b"[" * on.size(4_000_000) + b"]" * on.size(4_000_000) + b"}"
    return shown(await on.ask(Code.HEART_BEAT, None, body))


@case("locks of queues")
async def locks(on: Bench) -> str:
    queues = [MessageQueue("One", "sizes", n) for n in range(on.size(150_000))]
    body = LockBatch(client_id="many", consumer_group="HG0", mq_set=queues).encode()
    return shown(await on.ask(Code.LOCK_BATCH_MQ, None, body))


# Topics and groups.


@case("topics: one with too many queues")
async def too_many_queues(on: Bench) -> str:
    return shown(await on.ask(Code.UPDATE_AND_CREATE_TOPIC, create_topic("Huge", 2_000_000_000)))


@case("topics: 3,000 of 1,024 queues, one request each")
async def many_topics(on: Bench) -> str:
    many = range(on.size(3_000))
    found = await asyncio.gather(
        *(on.ask(Code.UPDATE_AND_CREATE_TOPIC, create_topic(f"Many{n}", QUEUES)) for n in many)
    )
    return f"{len(found)} answers, {shown(found[-1])}"


@case("topics: many in one request")
async def topic_list(on: Bench) -> str:
    configs = [TopicConfig(topic_name=f"Listed{n}", read_queue_nums=QUEUES) for n in range(on.size(20_000))]
    return shown(
        await on.ask(Code.UPDATE_AND_CREATE_TOPIC_LIST, None, TopicConfigList(topic_config_list=configs).encode())
    )


@case("topics: one more")
async def one_more_topic(on: Bench) -> str:
    return shown(await on.ask(Code.UPDATE_AND_CREATE_TOPIC, create_topic("OneMore", 4)))


@case("topics: made by 500 first sends")
async def first_sends(on: Bench) -> str:
    found = await asyncio.gather(
        *(on.ask(Code.SEND_MESSAGE_V2, send_header(f"First{n}"), b"x") for n in range(on.size(500)))
    )
    return f"{len(found)} answers, {shown(found[-1])}"


@case("topics: with large attributes")
async def attributes(on: Bench) -> str:
    text = ",".join(f"+a{n}={n}" for n in range(on.size(600_000)))
    header = msgspec.structs.replace(create_topic("Attributes", 4), attributes=text)
    return shown(await on.ask(Code.UPDATE_AND_CREATE_TOPIC, header))


@case("topics: deleted, one by one")
async def deleted_topics(on: Bench) -> str:
    found = await asyncio.gather(
        *(on.ask(Code.DELETE_TOPIC_IN_BROKER, topics.TopicOnly(topic=f"Many{n}")) for n in range(on.size(100)))
    )
    return f"{len(found)} answers, {shown(found[-1])}"


@case("topics: the list of all")
async def all_topics(on: Bench) -> str:
    return shown(await on.ask(Code.GET_ALL_TOPIC_CONFIG))


@case("groups: many in one request")
async def group_list(on: Bench) -> str:
    groups = [Group(group_name=f"Listed{n}") for n in range(on.size(20_000))]
    return shown(await on.ask(
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, None, GroupConfigList(group_config_list=groups).encode()
    ))  # fmt: skip


@case("groups: 500, one request each")
async def many_groups(on: Bench) -> str:
    found = await asyncio.gather(*(
        on.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, Group(group_name=f"One{n}").encode())
        for n in range(on.size(500))
    ))  # fmt: skip
    return f"{len(found)} answers, {shown(found[-1])}"


@case("groups: the list of all")
async def all_groups(on: Bench) -> str:
    return shown(await on.ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))


# Offsets.


@case("offsets: of 200,000 queues")
async def offsets(on: Bench) -> str:
    for part in range(on.size(200)):
        header = [
            consumer.UpdateConsumerOffset(consumer_group="Far", topic=f"Many{150 + part}", queue_id=n, commit_offset=0)
            for n in range(on.size(1000))
        ]
        await asyncio.gather(*(on.ask(Code.UPDATE_CONSUMER_OFFSET, one) for one in header))
    await asyncio.sleep(6 * on.scale)  # they are saved every 5 s
    return "sent"


@case("offsets: the list of all")
async def all_offsets(on: Bench) -> str:
    return shown(await on.ask(Code.GET_ALL_CONSUMER_OFFSET))


@case("offsets: progress of a group with 200,000 queues")
async def consume_stats(on: Bench) -> str:
    return shown(await on.ask(Code.GET_CONSUME_STATS, tools.GetConsumeStats(consumer_group="Far")))


@case("offsets: progress of all groups")
async def broker_consume_stats(on: Bench) -> str:
    return shown(await on.ask(Code.GET_BROKER_CONSUME_STATS, tools.BrokerConsumeStats(is_order=False)))


@case("offsets: reset of 1,024 queues")
async def reset(on: Bench) -> str:
    header = tools.ResetOffset(topic="Many150", group="Far", timestamp=0, is_force=True)
    return shown(await on.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, header))


@case("offsets: copied to another group")
async def clone(on: Bench) -> str:
    return shown(await on.ask(Code.CLONE_GROUP_OFFSET, tools.CloneOffsets(src_group="Far", dest_group="Copy")))


@case("offsets: state of a topic with 1,024 queues")
async def topic_stats(on: Bench) -> str:
    return shown(await on.ask(Code.GET_TOPIC_STATS_INFO, topics.TopicOnly(topic="Many150")))


# Tools.


@case("tools: metrics over HTTP")
async def metrics(on: Bench) -> str:
    return await on.http("/metrics")


@case("tools: transactions over HTTP")
async def transactions(on: Bench) -> str:
    return await on.http("/transactions?limit=1000")


@case("tools: figures of the broker")
async def runtime_info(on: Bench) -> str:
    return shown(await on.ask(Code.GET_BROKER_RUNTIME_INFO))


@case("tools: 16 MB of settings")
async def settings(on: Bench) -> str:
    body = "".join(f"key{n}=1\n" for n in range(on.size(1_000_000))).encode()
    return shown(await on.ask(Code.UPDATE_BROKER_CONFIG, None, body))


@case("tools: a page of transactions")
async def list_transactions(on: Bench) -> str:
    return shown(
        await on.ask(Code.LIST_TRANSACTIONS, tools.ListTransactions(state="open", count=1_000_000, topic="None"))
    )


@case("tools: checks of all half messages")
async def list_checks(on: Bench) -> str:
    return shown(await on.ask(Code.LIST_CHECKS, tools.ListChecks(begin=0, end=1 << 40)))


@case("tools: producers of all groups")
async def producers(on: Bench) -> str:
    return shown(await on.ask(Code.GET_ALL_PRODUCER_INFO))


@case("tools: all topics at a glance")
async def topics_at_a_glance(on: Bench) -> str:
    return shown(await on.ask(Code.SUMMARIZE, tools.Summarize(what="topics")))


@case("tools: all groups at a glance")
async def groups_at_a_glance(on: Bench) -> str:
    return shown(await on.ask(Code.SUMMARIZE, tools.Summarize(what="groups")))


@case("tools: all clients at a glance")
async def clients_at_a_glance(on: Bench) -> str:
    return shown(await on.ask(Code.SUMMARIZE, tools.Summarize(what="clients")))


@case("tools: topics without messages are cleaned")
async def clean(on: Bench) -> str:
    return shown(await on.ask(Code.CLEAN_UNUSED_TOPIC))


# The name server.


@case("routes: a broker with 100,000 topics")
async def register(on: Bench) -> str:
    many = {f"R{n}": TopicConfig(topic_name=f"R{n}") for n in range(on.size(100_000))}
    table = TopicTable(data_version=DataVersion(counter=1), topic_config_table=many)
    header = nameserver.RegisterBroker(
        broker_name="other", broker_addr="127.0.0.1:1", cluster_name="C", ha_server_addr="127.0.0.1:2", broker_id=0,
        compressed=False, body_crc32=0,
    )  # fmt: skip
    body = RegisterBrokerBody(topic_config_serialize_wrapper=table).encode()
    return shown(await on.ask(Code.REGISTER_BROKER, header, body, at=on.names.address))


@case("routes: a compressed registration that grows")
async def register_bomb(on: Bench) -> str:
    import zlib

    header = nameserver.RegisterBroker(
        broker_name="bomb", broker_addr="127.0.0.1:3", cluster_name="C", ha_server_addr="127.0.0.1:4", broker_id=0,
        compressed=True, body_crc32=0,
    )  # fmt: skip
    body = zlib.compress(b" " * on.size(60_000_000))
    return shown(await on.ask(Code.REGISTER_BROKER, header, body, at=on.names.address))


@case("routes: the list of all topics")
async def all_routes(on: Bench) -> str:
    return shown(await on.ask(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, at=on.names.address))


@case("routes: 100,000 asked in one write")
async def many_routes(on: Bench) -> str:
    found = await asyncio.gather(*(
        on.ask(Code.GET_ROUTEINFO_BY_TOPIC, nameserver.GetRoute(topic=f"R{n}"), at=on.names.address)
        for n in range(on.size(100_000))
    ))  # fmt: skip
    return f"{len(found)} answers, {shown(found[-1])}"


@case("routes: key-values of a name server")
async def key_values(on: Bench) -> str:
    value = "x" * on.size(20_000)
    found = await asyncio.gather(*(
        on.ask(Code.PUT_KV_CONFIG, nameserver.PutKVConfig(namespace="N", key=f"k{n}", value=value), at=on.names.address)
        for n in range(on.size(1_000))
    ))  # fmt: skip
    return f"{len(found)} answers, {shown(found[-1])}"


@case("routes: write permission of a broker with 100,000 topics")
async def wipe(on: Bench) -> str:
    header = nameserver.BrokerNameOnly(broker_name="other")
    return shown(await on.ask(Code.WIPE_WRITE_PERM_OF_BROKER, header, at=on.names.address))


@case("routes: 16 MB of settings")
async def name_server_settings(on: Bench) -> str:
    body = "".join(f"key{n}=1\n" for n in range(on.size(1_000_000))).encode()
    return shown(await on.ask(Code.UPDATE_NAMESRV_CONFIG, None, body, at=on.names.address))


@case("routes: a broker with 100,000 topics leaves")
async def unregister(on: Bench) -> str:
    header = nameserver.UnregisterBroker(
        broker_name="other", broker_addr="127.0.0.1:1", cluster_name="C", broker_id=0
    )  # fmt: skip
    return shown(await on.ask(Code.UNREGISTER_BROKER, header, at=on.names.address))
