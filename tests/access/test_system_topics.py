"""Every topic of the system that holds messages of several topics is judged by those topics: each topic, through each
door, for each user.

The cells are made from lists: the topics of ``message.system_topics``, the requests of the broker, the users below. A
new topic or a new request fails a test here until somebody says what it holds, or what it gives away.
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from gantrymq.access.remoting.requests import BROKER_ROWS
from gantrymq.demo.ports import free_port
from gantrymq.message import properties, system_topics
from gantrymq.message.heartbeat import ConsumerData
from gantrymq.message.system_topics import TOOLS_CONSUMER, TRANSACTION_TOPICS, Holds, holds
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.codes import RequestCode as Code
from gantrymq.protocol.headers import access
from gantrymq.protocol.headers.consumer import SendBack
from gantrymq.protocol.headers.pop import PeekMessage, PopMessage
from gantrymq.protocol.headers.pull import QueryMessage, ViewMessage
from gantrymq.protocol.headers.tools import ConsumeDirectly, ExplainTransaction, ListTransactions
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import offset_message_id
from gantrymq.protocol.trace_records import TraceKind, TraceRecord, encode
from gantrymq.store.values import NewRecord
from tests.access.test_broker import ADMIN, FINE, Caller, Guarded, acl, guarded
from tests.support.brokers import pull_header, until
from tests.support.doors import http

SECRET: Final = "secret"
BODY: Final = b"body of a stranger"
GROUP, CLUSTER = "reader", "DefaultCluster"
FAR_MS: Final = 4_000_000_000_000

TOPICS: Final = (
    *system_topics.SYSTEM_TOPICS,
    *(prefix + GROUP for prefix in (system_topics.RETRY_PREFIX, system_topics.DEAD_LETTER_PREFIX)),
    f"{system_topics.RETRY_PREFIX}{GROUP}_{SECRET}",
    f"{system_topics.RETRY_PREFIX}{GROUP}+{SECRET}",
    system_topics.REVIVE_PREFIX + CLUSTER,
    CLUSTER + system_topics.REPLY_SUFFIX,
)


def test_every_system_topic_says_what_it_holds() -> None:
    """The constants of the module that name topics are all in its tables."""
    texts = {name: value for name, value in vars(system_topics).items() if name.isupper() and isinstance(value, str)}
    groups = {"TRANSACTION_GROUP", "CLIENT_INNER_PRODUCER", "TOOLS_CONSUMER"}
    affixes = {name for name in texts if name.endswith(("_PREFIX", "_SUFFIX"))}
    assert {texts[name] for name in texts.keys() - groups - affixes} == set(system_topics.SYSTEM_TOPICS)
    assert {texts[name] for name in affixes} == {*system_topics.SYSTEM_PREFIXES, *system_topics.SYSTEM_SUFFIXES}
    assert {holds(topic) for topic in TOPICS} == set(Holds)


def test_every_topic_that_a_broker_makes_for_itself_says_what_it_holds(tmp_path: Path) -> None:
    async def work() -> set[str]:
        async with guarded(tmp_path, timer_wheel_enable=True, trace_topic_enable=True) as broker:
            return set(broker.running.broker.topics.names())

    own = {"DefaultCluster", "broker-a"}  # templates of topics, in which nothing lies
    assert {topic for topic in asyncio.run(work()) if holds(topic) is None} <= own


# What lies there.


def record_in(topic: str, number: int) -> NewRecord:
    """A message of the secret topic, as it waits in a topic of the system."""
    kind = holds(topic)
    texts = {properties.UNIQ_KEY: f"K{number}", properties.KEYS: "key"}
    body = BODY
    if kind is Holds.WAITING:
        texts |= {properties.REAL_TOPIC: SECRET, properties.REAL_QUEUE_ID: "0"}
    if kind is Holds.FAILED and not topic.endswith(SECRET):
        texts |= {properties.RETRY_TOPIC: SECRET}
    if kind is Holds.TRACES:
        traced = TraceRecord(kind=TraceKind.PUB, message_id="M1", topic=SECRET, keys=BODY.decode(), time_ms=1)
        body = encode(traced).encode()
    if topic in TRANSACTION_TOPICS:
        texts |= {properties.TRANSACTION_PREPARED: "true", properties.PRODUCER_GROUP: "PG"}
    if topic == system_topics.TIMER:
        texts |= {properties.TIMER_OUT_MS: str(FAR_MS)}
    queue, tags_code = (17, FAR_MS) if topic == system_topics.SCHEDULE else (0, None)
    return NewRecord(topic, queue, body, properties.encode(texts), 1, pack_host("10.0.0.9:1"), tags_code=tags_code)


@dataclass
class Place:
    """Where a message of the secret topic lies."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    key: str

    @property
    def message_id(self) -> str:
        return offset_message_id(b"\x7f\x00\x00\x01\x00\x00\x00\x01", self.log_offset)


# The doors: how somebody may come to a body. Each gives back all bytes that it got.


async def pulled(code: Code, caller: Caller, place: Place) -> bytes:
    group = TOOLS_CONSUMER if place.topic in TRANSACTION_TOPICS else GROUP
    header = pull_header(place.topic, place.queue_id, place.queue_offset, consumer_group=group)
    return (await caller.ask(code, header)).body


async def popped(caller: Caller, place: Place) -> bytes:
    header = PopMessage(
        consumer_group=GROUP, topic=place.topic, queue_id=place.queue_id, max_msg_nums=32, invisible_time=100,
        poll_time=0, born_time=0, init_mode=1,
    )  # fmt: skip
    return (await caller.ask(Code.POP_MESSAGE, header)).body


async def peeked(caller: Caller, place: Place) -> bytes:
    header = PeekMessage(consumer_group=GROUP, topic=place.topic, queue_id=place.queue_id, max_msg_nums=32)
    return (await caller.ask(Code.PEEK_MESSAGE, header)).body


async def queried(caller: Caller, place: Place) -> bytes:
    got = b""
    for key, unique in ((place.key, True), ("key", None)):
        header = QueryMessage(
            topic=place.topic, key=key, max_num=32, begin_timestamp=0, end_timestamp=FAR_MS, unique_key_query=unique
        )  # fmt: skip
        got += (await caller.ask(Code.QUERY_MESSAGE, header)).body
    return got


async def viewed(caller: Caller, place: Place) -> bytes:
    return (await caller.ask(Code.VIEW_MESSAGE_BY_ID, ViewMessage(offset=place.log_offset, topic="orders"))).body


async def sent_back(caller: Caller, place: Place) -> bytes:
    """The copy lies in the dead letters of a group of the caller's own."""
    group = f"own-{place.log_offset}"
    back = SendBack(offset=place.log_offset, group=group, delay_level=-1)
    if (await caller.ask(Code.CONSUMER_SEND_MSG_BACK, back)).code != FINE:
        return b""
    copy = pull_header(system_topics.dead_letter_topic(group), consumer_group=GROUP)
    return (await caller.ask(Code.PULL_MESSAGE, copy)).body


async def consumed_directly(caller: Caller, place: Place) -> bytes:
    """The caller is a member of its group and asks for the message."""
    caller.pushed.clear()
    group = f"own-{id(caller)}"
    member = HeartbeatData(client_id="c", consumer_data_set=[ConsumerData(group_name=group)])
    await caller.ask(Code.HEART_BEAT, None, member.encode())
    wanted = ConsumeDirectly(consumer_group=group, client_id="c", msg_id=place.message_id)
    asking = asyncio.ensure_future(caller.ask(Code.CONSUME_MESSAGE_DIRECTLY, wanted))
    await until(lambda: asking.done() or any(one.code == Code.CONSUME_MESSAGE_DIRECTLY for one in caller.pushed))
    asking.cancel()
    return b"".join(command.body for command in caller.pushed)


async def explained(caller: Caller, place: Place) -> bytes:
    """No body; but it names keys and topic."""
    return (await caller.ask(Code.EXPLAIN_TRANSACTION, ExplainTransaction(transaction_id=place.key))).body


async def listed(caller: Caller, place: Place) -> bytes:
    got = b""
    for state in ("open", "parked"):
        got += (await caller.ask(Code.LIST_TRANSACTIONS, ListTransactions(state=state, count=50))).body
    return got + (await caller.ask(Code.SUMMARIZE_TRANSACTIONS)).body


Door = Callable[[Caller, Place], Awaitable[bytes]]
DOORS: Final[dict[Code, Door]] = {
    Code.PULL_MESSAGE: lambda caller, place: pulled(Code.PULL_MESSAGE, caller, place),
    Code.LITE_PULL_MESSAGE: lambda caller, place: pulled(Code.LITE_PULL_MESSAGE, caller, place),
    Code.PEEK_MESSAGE: peeked,
    Code.POP_MESSAGE: popped,
    Code.QUERY_MESSAGE: queried,
    Code.VIEW_MESSAGE_BY_ID: viewed,
    Code.CONSUMER_SEND_MSG_BACK: sent_back,
    Code.CONSUME_MESSAGE_DIRECTLY: consumed_directly,
    Code.EXPLAIN_TRANSACTION: explained,
    Code.LIST_TRANSACTIONS: listed,
    Code.SUMMARIZE_TRANSACTIONS: listed,
}
"""Requests that could give away a message of somebody else, or its keys. The console, the command line and Spark have
no other way than these: they sign as a user and ask."""

NO_MESSAGES: Final = frozenset(
    {
        # What comes in.
        Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.SEND_REPLY_MESSAGE,
        Code.SEND_REPLY_MESSAGE_V2, Code.SEND_HALVES, Code.END_TRANSACTION, Code.END_HALVES, Code.RECALL_MESSAGE,
        Code.RESUME_CHECK_HALF_MESSAGE, Code.ACK_MESSAGE, Code.BATCH_ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME,
        Code.POP_ROLLBACK, Code.UPDATE_CONSUMER_OFFSET,
        # Messages of topics of type LITE, which no topic of the system is.
        Code.POP_LITE_MESSAGE, Code.LITE_SUBSCRIPTION_CTL,
        # Numbers, names and settings.
        Code.NOTIFICATION, Code.POLLING_INFO, Code.QUERY_ASSIGNMENT, Code.SET_MESSAGE_REQUEST_MODE,
        Code.GET_ALL_MESSAGE_REQUEST_MODE, Code.QUERY_CONSUMER_OFFSET, Code.GET_ALL_CONSUMER_OFFSET,
        Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET, Code.GET_EARLIEST_MSG_STORETIME,
        Code.HEART_BEAT, Code.UNREGISTER_CLIENT, Code.CHECK_CLIENT_CONFIG, Code.GET_CONSUMER_LIST_BY_GROUP,
        Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ, Code.LIST_CHECKS, Code.GET_TIMER_CHECK_POINT, Code.GET_TIMER_METRICS,
        Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_AND_CREATE_TOPIC_LIST, Code.DELETE_TOPIC_IN_BROKER,
        Code.GET_TOPIC_CONFIG, Code.GET_ALL_TOPIC_CONFIG, Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, Code.DELETE_SUBSCRIPTIONGROUP, Code.GET_SUBSCRIPTIONGROUP_CONFIG,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Code.UPDATE_AND_GET_GROUP_FORBIDDEN,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, Code.GET_TOPIC_STATS_INFO, Code.GET_CONSUME_STATS,
        Code.GET_BROKER_CONSUME_STATS, Code.QUERY_TOPIC_CONSUME_BY_WHO, Code.QUERY_TOPICS_BY_CONSUMER,
        Code.QUERY_CONSUME_TIME_SPAN, Code.QUERY_CORRECTION_OFFSET, Code.CLONE_GROUP_OFFSET, Code.QUERY_CONSUME_QUEUE,
        Code.GET_CONSUMER_CONNECTION_LIST, Code.GET_PRODUCER_CONNECTION_LIST, Code.GET_ALL_PRODUCER_INFO,
        Code.QUERY_SUBSCRIPTION_BY_CONSUMER, Code.GET_CONSUMER_RUNNING_INFO, Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        Code.INVOKE_BROKER_TO_RESET_OFFSET, Code.VIEW_BROKER_STATS_DATA, Code.GET_ALL_DELAY_OFFSET,
        Code.UPDATE_BROKER_CONFIG, Code.GET_BROKER_CONFIG, Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.CLEAN_UNUSED_TOPIC,
        Code.DELETE_EXPIRED_COMMITLOG, Code.GET_BROKER_HA_STATUS, Code.GET_BROKER_RUNTIME_INFO, Code.SUMMARIZE,
        Code.CONTROLLER_ELECT_MASTER, Code.CONTROLLER_GET_METADATA_INFO, Code.CONTROLLER_GET_SYNC_STATE_DATA,
        Code.GET_BROKER_EPOCH_CACHE, Code.COPY_TABLES, Code.LIST_HELD, Code.NOTIFY_BROKER_ROLE_CHANGED,
        Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER, Code.AUTH_GET_USER, Code.AUTH_LIST_USER,
        Code.AUTH_CREATE_ACL, Code.AUTH_UPDATE_ACL, Code.AUTH_DELETE_ACL, Code.AUTH_GET_ACL, Code.AUTH_LIST_ACL,
    }
)  # fmt: skip
"""Requests whose answer has no message of anybody."""


def test_every_request_says_whether_it_could_give_a_message_away() -> None:
    assert set(BROKER_ROWS) == set(DOORS) | NO_MESSAGES
    assert not set(DOORS) & NO_MESSAGES


# The users. None of the strangers may have anything of the secret topic, however many other rights they have.

EVERYTHING_ELSE: Final = ("Group:*=All", "Cluster:*=All")
NAMED: Final = tuple(f"Topic:{topic}=All" for topic in TOPICS if not topic.startswith(system_topics.RETRY_PREFIX))
STRANGERS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "one": (("Topic:orders=All", *EVERYTHING_ELSE), ()),
    "most": (("Topic:*=All", *EVERYTHING_ELSE), ("Topic:secret=All",)),
    "named": (("Topic:*=All", *NAMED, *EVERYTHING_ELSE), ("Topic:secret=All",)),
}
"""What is allowed to them, and what is denied."""
OWNERS: Final[dict[str, tuple[str, ...]]] = {"owner": ("Topic:secret=All", *NAMED, *EVERYTHING_ELSE)}


def has_seen(got: bytes) -> bool:
    return BODY in got or SECRET.encode() in got.replace(b"Topic:secret", b"")


async def callers_of(broker: Guarded) -> dict[str, Caller]:
    admin = broker.caller(ADMIN)
    made = {"nobody": broker.caller(None), "admin": admin}
    for name, (allowed, denied) in STRANGERS.items():
        made[name] = broker.caller(await admin.make_user(name, *allowed))
        if denied:
            await admin.fine(
                Code.AUTH_CREATE_ACL, access.SubjectOnly(subject=f"User:{name}"), acl(name, *denied, decision="Deny")
            )
    for name, allowed in OWNERS.items():
        made[name] = broker.caller(await admin.make_user(name, *allowed))
    return made


async def store(broker: Guarded) -> list[Place]:
    running = broker.running.broker
    running.topics.ensure(SECRET, 1)
    running.topics.ensure("orders", 1)
    places = []
    for number, topic in enumerate(TOPICS):
        running.topics.ensure(topic, 1)
        made = record_in(topic, number)
        placement = running.store.append((made,))[0]
        places.append(Place(topic, made.queue_id, placement.queue_offset, placement.log_offset, f"K{number}"))
    last = places[-1]
    await until(lambda: running.store.entry(last.topic, last.queue_id, last.queue_offset) is not None)
    return places


def test_no_door_gives_a_stranger_a_message_of_another_topic(tmp_path: Path) -> None:
    """And each door gives something to the owner, or to a super user: otherwise the cells would prove nothing."""
    leaks: list[tuple[str, str, str]] = []
    given: dict[Code, set[str]] = {code: set() for code in DOORS}

    async def work() -> None:
        settings = {"timer_wheel_enable": True, "trace_topic_enable": True, "transaction_time_out": 3_600_000}
        async with asyncio.timeout(120), guarded(tmp_path, **settings) as broker:
            callers = await callers_of(broker)
            places = await store(broker)
            for place in places:
                if holds(place.topic) in (Holds.NOTHING, Holds.NOTES, Holds.REPLIES):
                    continue  # no message there names a topic; see the next test
                for code, door in DOORS.items():
                    for name, caller in callers.items():
                        seen = has_seen(await door(caller, place))
                        if name in ("admin", *OWNERS):
                            given[code] |= {place.topic} if seen else set()
                        elif seen:
                            leaks.append((place.topic, code.name, name))

    asyncio.run(work())
    assert not leaks
    assert all(given.values()), {code.name: topics for code, topics in given.items() if not topics}
    assert given[Code.PULL_MESSAGE] == {
        topic for topic in TOPICS if holds(topic) in (Holds.WAITING, Holds.FAILED, Holds.TRACES)
    }


def test_what_names_no_topic_is_read_only_by_a_policy_that_names_where_it_lies(tmp_path: Path) -> None:
    async def work() -> None:
        async with asyncio.timeout(60), guarded(tmp_path) as broker:
            callers = await callers_of(broker)
            places = await store(broker)
            for place in places:
                if holds(place.topic) in (Holds.NOTES, Holds.REPLIES):
                    got = {name: await pulled(Code.PULL_MESSAGE, caller, place) for name, caller in callers.items()}
                    assert {name for name, body in got.items() if body} == {"admin", "named", "owner"}, place.topic

    asyncio.run(work())


def test_the_http_endpoint_tells_only_of_transactions_whose_topic_a_user_may_know(tmp_path: Path) -> None:
    def ask(address: str, path: str, user: str) -> tuple[int, str]:
        key = b64encode(f"{user}:{user}-secret".encode()).decode()
        request = urllib.request.Request(f"http://{address}{path}", headers={"Authorization": f"Basic {key}"})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    async def work() -> None:
        settings = {"transaction_time_out": 3_600_000, "http_port": free_port()}
        async with asyncio.timeout(60), guarded(tmp_path, **settings) as broker:
            await callers_of(broker)
            await store(broker)
            address = http(broker.running.broker).address
            for user, knows in (("admin", True), ("owner", True), ("one", False), ("most", False)):
                listed = await asyncio.to_thread(ask, address, "/transactions", user)
                told = await asyncio.to_thread(ask, address, "/transactions/K0", user)
                assert (listed[0], bool(json.loads(listed[1])["transactions"])) == (200, knows), user
                assert told[0] == (200 if knows else 403), told

    asyncio.run(work())


@pytest.mark.parametrize("topic", [system_topics.RETRY_PREFIX + GROUP, system_topics.DEAD_LETTER_PREFIX + GROUP])
def test_a_group_does_not_lose_what_its_member_may_not_read(topic: str, tmp_path: Path) -> None:
    """What is before it comes; then the read is refused, by a sentence that says which right is missing."""

    async def work() -> None:
        async with asyncio.timeout(60), guarded(tmp_path) as broker:
            caller = (await callers_of(broker))["one"]
            more = acl("one", f"Topic:{topic}=Sub")
            await broker.caller(ADMIN).fine(Code.AUTH_UPDATE_ACL, access.SubjectOnly(subject="User:one"), more)
            running = broker.running.broker
            running.topics.ensure(topic, 1)
            own = properties.encode({properties.RETRY_TOPIC: "orders", properties.UNIQ_KEY: "OWN"})
            running.store.append((NewRecord(topic, 0, b"mine", own, 1, pack_host("10.0.0.9:1")),))
            running.store.append((record_in(topic, 1),))
            await until(lambda: running.store.entry(topic, 0, 1) is not None)
            got = await caller.fine(Code.PULL_MESSAGE, pull_header(topic, consumer_group=GROUP))
            assert b"mine" in got.body and BODY not in got.body and (got.ext_fields())["nextBeginOffset"] == "1"
            remark = await caller.denied(Code.PULL_MESSAGE, pull_header(topic, 0, 1, consumer_group=GROUP))
            assert "the user one needs Sub or Get on Topic:secret" in remark and "offset 1" in remark

    asyncio.run(work())
