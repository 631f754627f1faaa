"""Members of one group that select different messages of a topic: what the group gets then, and who says so."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from gantrymq.admin import Admin
from gantrymq.broker.registries.clients import selector_of
from gantrymq.message.heartbeat import ConsumerData, SubscriptionData
from gantrymq.message.tags import tags_code
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.bodies.progress import ConsumerConnections
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.consumer import UnregisterClient
from gantrymq.protocol.headers.pop import PopMessage
from gantrymq.protocol.headers.tools import ConsumerGroupOnly
from gantrymq.protocol.stored_message import scan
from gantrymq.remoting.client import RemotingClient
from tests.cli.tool import Tool
from tests.support.brokers import Cluster, cluster, new_client, pull_header, until

GROUP, TOPIC = "billing", "Orders"
BOTH = {TOPIC: {"*": ["new"], "paid": ["old"]}}


def subscription(tags: str, version: int) -> SubscriptionData:
    wanted = [] if tags == "*" else [tag.strip() for tag in tags.split("||")]
    return SubscriptionData(
        topic=TOPIC, sub_string=tags, tags_set=wanted, code_set=[tags_code(tag) for tag in wanted], sub_version=version
    )


class Member:
    """One client of the group, on a connection of its own."""

    def __init__(self, running: Cluster, name: str) -> None:
        self._address = running.broker.address
        self.name = name
        self.client: RemotingClient = new_client()

    async def says(self, tags: str, version: int) -> None:
        consumer = ConsumerData(group_name=GROUP, subscription_data_set=[subscription(tags, version)])
        body = HeartbeatData(client_id=self.name, consumer_data_set=[consumer]).encode()
        answer = await self.client.call(self._address, RequestCode.HEART_BEAT, None, body, timeout_ms=10_000)
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def leaves(self) -> None:
        header = UnregisterClient(client_id=self.name, consumer_group=GROUP)
        await self.client.call(self._address, RequestCode.UNREGISTER_CLIENT, header, b"", timeout_ms=10_000)

    async def pulls(self) -> list[str]:
        header = pull_header(TOPIC, consumer_group=GROUP, sys_flag=0, subscription=None, expression_type=None)
        answer = await self.client.call(self._address, RequestCode.PULL_MESSAGE, header, b"", timeout_ms=10_000)
        return [record.body.decode() for record in scan(answer.body)]


async def told(running: Cluster) -> dict[str, dict[str, list[str]]] | None:
    answer = await running.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupOnly(consumer_group=GROUP))
    return ConsumerConnections.decode(answer.body).subscription_conflicts


def test_the_newest_subscription_counts_for_the_whole_group_and_the_broker_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with asyncio.timeout(60), cluster(tmp_path) as running:
            await running.create_topic(TOPIC, 1)
            for tag in ("paid", "refunded"):
                await running.sent(TOPIC, tag.encode(), f"TAGS\x01{tag}\x02")
            await until(lambda: running.broker.store.queue_range(TOPIC, 0)[1] == 2)
            old, new = Member(running, "old"), Member(running, "new")
            try:
                await old.says("paid", 1)
                assert await old.pulls() == ["paid"] and await told(running) is None
                await new.says("refunded || paid", 2)
                assert await told(running) == {TOPIC: {"paid": ["old"], "paid || refunded": ["new"]}}
                assert running.broker.metrics.total("gantry_subscription_conflicts") == 2
                # Push and pull consumers: the newest version counts for all members, also for the old one.
                assert await old.pulls() == ["paid", "refunded"]
                await old.says("paid", 1)  # its next heartbeat does not bring the old one back
                assert await old.pulls() == ["paid", "refunded"]
                # POP: each request brings its selector. What it passes over is passed over for the whole group.
                pop = PopMessage(
                    consumer_group=GROUP, topic=TOPIC, queue_id=0, max_msg_nums=8, invisible_time=60_000, poll_time=0,
                    born_time=0, init_mode=0, exp="refunded", exp_type="TAG",
                )  # fmt: skip
                popped = await running.ask(RequestCode.POP_MESSAGE, pop)
                assert [record.body for record in scan(popped.body)] == [b"refunded"]
                await old.says("refunded||paid", 3)  # the same in another order
                assert await told(running) is None
                assert running.broker.metrics.total("gantry_subscription_conflicts") == 0
            finally:
                await old.client.close()
                await new.client.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(work())
    said = [record.getMessage() for record in caplog.records if "select different messages" in record.getMessage()]
    assert len(said) == 1  # at most once a minute for a group
    assert "billing" in said[0] and "'paid' by old" in said[0] and "gantry group show billing" in said[0]


def test_a_member_that_left_is_in_no_conflict(tmp_path: Path) -> None:
    async def work() -> None:
        async with asyncio.timeout(60), cluster(tmp_path) as running:
            old, new = Member(running, "old"), Member(running, "new")
            try:
                await old.says("paid", 1)
                await new.says("*", 2)
                assert await told(running) == BOTH
                await old.leaves()
                assert await told(running) is None
                await old.says("paid", 1)
                assert await told(running) == BOTH
                await old.client.close()  # without a word
                group = running.broker.consumers.get(GROUP)
                assert group is not None
                await until(lambda: not group.conflicts())
                assert await told(running) is None
            finally:
                await new.client.close()

    asyncio.run(work())


def test_tools_show_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with asyncio.timeout(60), cluster(tmp_path / "store", with_name_server=True) as running:
            assert running.name_server is not None
            await running.create_topic(TOPIC, 1)
            old, new = Member(running, "old"), Member(running, "new")
            try:
                await old.says("paid", 1)
                await new.says("*", 2)
                async with Admin(running.name_server.address) as admin:
                    online = await admin.consumers.connections(GROUP)
                    assert online is not None and online.subscription_conflicts == BOTH
                tool = Tool(running.name_server.address, tmp_path / "audit.jsonl")
                text = " ".join((await asyncio.to_thread(tool.text, "group", "show", GROUP)).split())
                assert "Members select different messages of Orders" in text and "paid (old)" in text
                assert (await asyncio.to_thread(tool.json, "group", "show", GROUP))["conflicts"] == BOTH
            finally:
                await old.client.close()
                await new.client.close()

    asyncio.run(work())


def test_the_order_of_tags_does_not_matter() -> None:
    assert selector_of(subscription("a||b", 1)) == selector_of(subscription(" b ||a", 2)) == "a || b"
    assert selector_of(subscription("*", 1)) == selector_of(SubscriptionData(topic=TOPIC)) == "*"
    by_properties = SubscriptionData(topic=TOPIC, sub_string="a > 1", expression_type="SQL92")
    assert selector_of(by_properties) == "SQL92: a > 1"
