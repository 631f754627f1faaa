"""All topics, groups and clients at a glance: of a broker that knows the question, of one that does not, of none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from gantrymq.admin import Admin
from gantrymq.admin.overviews import Overview, Unasked, merged_groups, merged_topics
from gantrymq.broker.remoting.door import RemotingDoor
from gantrymq.message.heartbeat import ConsumerData, SubscriptionData
from gantrymq.message.summaries import GroupSummary, Summaries, TopicGroupLag, TopicSummary
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.consumer import UpdateConsumerOffset
from gantrymq.protocol.headers.tools import Summarize
from tests.support.brokers import Cluster, cluster


async def filled(running: Cluster) -> None:
    """Three messages in one topic, one of them consumed by a group that is online."""
    await running.create_topic("Orders", 2, attributes="+message.type=NORMAL")
    for _ in range(3):
        await running.sent("Orders", queue_id=1)
    reads = SubscriptionData(topic="Orders", sub_string="*")
    member = ConsumerData(group_name="shipping", subscription_data_set=[reads])
    beat = HeartbeatData(client_id="10.0.0.1@7", consumer_data_set=[member])
    assert (await running.ask(RequestCode.HEART_BEAT, None, beat.encode())).code == ResponseCode.SUCCESS
    header = UpdateConsumerOffset(consumer_group="shipping", topic="Orders", queue_id=1, commit_offset=1)
    await running.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)


def test_one_question_tells_all(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path, with_name_server=True) as running:
            assert running.name_server is not None
            await filled(running)
            async with Admin(running.name_server.address) as admin:
                topics = await admin.overviews.topics()
                one = topics.topics["Orders"]
                assert (one.queues, one.messages, one.lag, one.furthest, one.groups) == (2, 3, 2, "shipping", 1)
                assert one.message_type == "NORMAL" and one.brokers == ["broker-a"] and one.put_tps >= 0
                assert topics.topics["TBW102"].system and topics.topics["DefaultCluster"].system and not one.system
                assert topics.topics["TBW102"].lag is None, "nobody reads it, so nobody is behind"
                groups = await admin.overviews.groups()
                group = groups.groups["shipping"]
                assert (group.lag, group.members, group.model) == (2, 1, "CLUSTERING") and group.behind_ms >= 0
                assert list(group.topics) == ["Orders"] and topics.is_whole and groups.is_whole
                clients = (await admin.overviews.clients()).clients
                (row,) = [row for _, row in clients if row.kind == "consumer"]
                assert (row.group, row.client_id, row.protocol) == ("shipping", "10.0.0.1@7", "remoting")
            refused = await running.ask(RequestCode.SUMMARIZE, Summarize(what="everything"))
            assert refused.code != ResponseCode.SUCCESS and "not a valid summary" in (refused.remark or "")

    asyncio.run(work())


def test_brokers_that_do_not_know_the_question_or_are_gone(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path, with_name_server=True) as running:
            assert running.name_server is not None
            cast("RemotingDoor", running.broker.doors[0]).handlers.pop(RequestCode.SUMMARIZE)
            async with Admin(running.name_server.address, call_timeout_ms=5_000) as admin:
                for ask in (admin.overviews.topics, admin.overviews.groups, admin.overviews.clients):
                    older = await ask()
                    assert not older.is_whole and "no such summary" in older.unasked[0].why
                await running.broker.close()
                with pytest.raises(Exception, match="broker"):  # the name server forgets it sooner or later
                    await admin.overviews.groups()

    asyncio.run(work())


def test_what_several_brokers_say() -> None:
    def topic(messages: int, lag: int | None, furthest: str) -> TopicSummary:
        return TopicSummary(
            topic="T", queues=4, messages=messages, put_tps=1.5, got_tps=0.5, groups=2, lag=lag, furthest=furthest,
            message_type="", perm=6, system=False,
        )  # fmt: skip

    found = {"a": Summaries(topics=[topic(5, None, "")]), "b": Summaries(topics=[topic(7, 9, "G")])}
    one = merged_topics(found)["T"]
    assert (one.brokers, one.queues, one.messages, one.lag, one.furthest) == (["a", "b"], 8, 12, 9, "G")

    def group(lag: int, ms: int, *members: str) -> GroupSummary:
        rows = [TopicGroupLag(topic="T", lag=lag, behind_ms=ms, tps=1.0)]
        return GroupSummary(group="G", topics=rows, members=list(members), model="", conflicts=["T"] if ms else [])

    both = {"a": Summaries(groups=[group(2, 900, "x", "y")]), "b": Summaries(groups=[group(3, 0, "y")])}
    whole = merged_groups(both)["G"]
    assert (whole.lag, whole.behind_ms, whole.members, whole.conflicts) == (5, 900, 2, ["T"])
    assert whole.topics["T"].lag == 5 and whole.topics["T"].tps == 2.0


def test_when_a_list_is_whole() -> None:
    gone = Unasked(broker="a", why="no answer", gone=True)
    denied = Unasked(broker="a", why="not allowed", gone=True, denied=True)
    assert Overview().is_whole and Overview(unasked=[gone]).is_whole
    assert not Overview(unasked=[denied]).is_whole and not Overview(unasked=[Unasked(broker="a", why="old")]).is_whole
