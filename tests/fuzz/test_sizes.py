"""The short version of the fuzzer of sizes: limits refuse, and work is counted. Nothing here looks at a clock."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from gantrymq.broker.operations.members import MAX_EXPRESSIONS, MAX_GROUPS, MAX_SUBSCRIPTIONS
from gantrymq.broker.operations.topics import MAX_AT_ONCE
from gantrymq.message.heartbeat import ConsumerData, ProducerData, SubscriptionData
from gantrymq.protocol.bodies.groups import GroupConfigList
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.bodies.topics import TopicConfigList
from gantrymq.protocol.body import DIALECT_BYTES
from gantrymq.protocol.codes import RequestCode as Code
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.files.topics import TopicConfig
from gantrymq.runtime.properties import SETTINGS_BYTES
from tests.fuzz.size_cases import CASES
from tests.fuzz.sizes import run
from tests.support.brokers import Cluster, on_broker

SCALE = 0.003
REFUSED = ResponseCode.INVALID_PARAMETER


@pytest.mark.slow
def test_every_size_is_answered() -> None:
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}: python -m tests.fuzz.sizes --seed {seed} --scale {SCALE}")
    turns = run(seed, SCALE)
    assert len(turns) == 2 * len(CASES)
    odd = [
        turn for turn in turns if "Error" in turn.answered or (turn.answered.startswith("1: ") and "Body" in turn.case)
    ]
    assert not odd, "a defect, or no answer"


def consumers(groups: int, subscriptions: int = 1, expression: str = "*") -> bytes:
    data = [SubscriptionData(topic=f"T{number}", sub_string=expression) for number in range(subscriptions)]
    made = [ConsumerData(group_name=f"Group{number}", subscription_data_set=data) for number in range(groups)]
    return HeartbeatData(client_id="c", consumer_data_set=made).encode()


TOO_LARGE = {
    "consumer groups": (Code.HEART_BEAT, consumers(MAX_GROUPS + 1)),
    "producer groups": (
        Code.HEART_BEAT,
        HeartbeatData(
            client_id="c", producer_data_set=[ProducerData(group_name=f"P{number}") for number in range(MAX_GROUPS + 1)]
        ).encode(),
    ),
    "subscriptions": (Code.HEART_BEAT, consumers(1, MAX_SUBSCRIPTIONS + 1)),
    "characters of expressions": (Code.HEART_BEAT, consumers(1, 5, "x" * (MAX_EXPRESSIONS // 4))),
    "topics": (
        Code.UPDATE_AND_CREATE_TOPIC_LIST,
        TopicConfigList(topic_config_list=[TopicConfig(topic_name=f"T{n}") for n in range(MAX_AT_ONCE + 1)]).encode(),
    ),
    "groups": (
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        GroupConfigList(group_config_list=[Group(group_name=f"Group{n}") for n in range(MAX_AT_ONCE + 1)]).encode(),
    ),
    "settings": (Code.UPDATE_BROKER_CONFIG, b"#" * (SETTINGS_BYTES + 1)),
}


@pytest.mark.parametrize("what", list(TOO_LARGE))
def test_what_is_too_large_is_refused_and_changes_nothing(tmp_path: Path, what: str) -> None:
    code, body = TOO_LARGE[what]

    async def work(c: Cluster) -> None:
        before = c.broker.topics.version.counter, len(c.broker.groups.names())
        answer = await c.ask(code, None, body)
        assert (answer.code, what in (answer.remark or "")) == (REFUSED, True), answer.remark
        assert (c.broker.topics.version.counter, len(c.broker.groups.names())) == before
        assert not c.broker.consumers.get("Group0")

    on_broker(work, tmp_path)


def test_only_small_bodies_are_read_in_javas_dialect(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        body = b'{"clientID":"c","other":{%b}}'
        small = await c.ask(Code.HEART_BEAT, None, body % b"1:2,3:4")
        assert small.code == ResponseCode.SUCCESS
        large = await c.ask(Code.HEART_BEAT, None, body % b",".join(b"%d:1" % n for n in range(DIALECT_BYTES // 5)))
        assert large.code == ResponseCode.SYSTEM_ERROR and "not plain JSON" in (large.remark or "")
        plain = await c.ask(Code.HEART_BEAT, None, body % b",".join(b'"%d":1' % n for n in range(DIALECT_BYTES // 5)))
        assert plain.code == ResponseCode.SUCCESS, "plain JSON may be as large as a frame"

    on_broker(work, tmp_path)


def test_a_heartbeat_with_many_new_groups_writes_each_table_once(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        before = c.broker.topics.version.counter, c.broker.groups.table().data_version.counter
        answer = await c.ask(Code.HEART_BEAT, None, consumers(MAX_GROUPS))
        assert answer.code == ResponseCode.SUCCESS
        after = c.broker.topics.version.counter, c.broker.groups.table().data_version.counter
        assert (after[0] - before[0], after[1] - before[1]) == (1, 1)
        assert c.broker.topics.exists(f"%RETRY%Group{MAX_GROUPS - 1}")

    on_broker(work, tmp_path)


def test_there_are_at_most_so_many_topics_and_groups(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        known = len(c.broker.topics.names())
        await c.ask(Code.UPDATE_BROKER_CONFIG, None, b"maxTopics=%d\nmaxConsumerGroups=9\n" % (known + 1))
        assert (await c.create_topic("First")).code == ResponseCode.SUCCESS
        refused = await c.create_topic("Second")
        assert refused.code == ResponseCode.NO_PERMISSION and "maxTopics" in (refused.remark or "")
        sent = await c.send("Third")
        assert sent.code == ResponseCode.NO_PERMISSION and "maxTopics" in (sent.remark or "")
        assert (await c.create_topic("First", 8)).code == ResponseCode.SUCCESS, "one that is there may be changed"
        for name in ("one", "two"):
            made = await c.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, Group(group_name=name).encode())
        assert made.code == ResponseCode.NO_PERMISSION and "maxConsumerGroups" in (made.remark or "")
        await c.ask(Code.HEART_BEAT, None, consumers(2))
        assert c.broker.groups.get("Group0") is None, "there are 8 of the system, and `one`"

    on_broker(work, tmp_path)
