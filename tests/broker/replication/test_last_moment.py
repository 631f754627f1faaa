"""A primary dies right behind a change: tables and selectors had not come, and no message is skipped."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gantrymq.broker.replication import tables
from gantrymq.broker.roles import Role
from gantrymq.demo.ports import free_port
from gantrymq.message.heartbeat import ConsumerData, SubscriptionData
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.codes import RequestCode as Code
from gantrymq.protocol.codes import ResponseCode
from tests.broker.remoting.test_selectors import bodies, subscription
from tests.broker.replication.test_pair import replica_of
from tests.support.brokers import Cluster, cluster, new_client, until

ORDERS = SubscriptionData(topic="orders", sub_string="*", sub_version=1, expression_type="TAG")


async def heartbeat(c: Cluster, group: str, *data: SubscriptionData) -> None:
    body = HeartbeatData(
        client_id="c-1", consumer_data_set=[ConsumerData(group_name=group, subscription_data_set=list(data))]
    ).encode()
    assert (await c.ask(Code.HEART_BEAT, body=body)).code == ResponseCode.SUCCESS


def test_a_new_primary_gives_a_group_nothing_before_it_knows_the_selector(tmp_path: Path) -> None:
    """So a selector need not travel: no message is passed over for want of it, and none comes that it refuses."""

    async def work() -> None:
        port = free_port()
        settings = {"enable_property_filter": True, "ha_master_address": f"127.0.0.1:{port}"}
        async with cluster(tmp_path / "a", ha_listen_port=port, enable_property_filter=True) as primary:
            await primary.create_topic("T", queues=1)
            await heartbeat(primary, "CG", subscription("amount > 5"))
            for amount in range(10):
                await primary.sent("T", b"%d" % amount, f"amount\x01{amount}\x02")
            wanted = [b"6", b"7", b"8", b"9"]
            assert bodies(await primary.pull("T", sys_flag=0)) == wanted
            async with replica_of(primary, tmp_path / "b", **settings) as replica:
                await until(lambda: replica.store.max_log_offset == primary.broker.store.max_log_offset)
                await replica.become(Role.PRIMARY)
                client = new_client()
                other = Cluster(replica, client)
                early = await other.pull("T", sys_flag=0)
                assert (early.code, early.body) == (ResponseCode.SUBSCRIPTION_NOT_EXIST, b"")
                await heartbeat(other, "CG", subscription("amount > 5"))
                assert bodies(await other.pull("T", sys_flag=0)) == wanted
                await client.close()

    asyncio.run(work())


@pytest.mark.slow
@pytest.mark.pure("a constant of the core is replaced")
def test_what_changed_in_the_last_moment_is_made_again_or_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables come once, and then never. What is changed behind that: a topic with a message, a group, an offset,
    and the position of delayed messages."""
    monkeypatch.setattr(tables, "OWN_S", 3_600.0)

    async def work() -> None:
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port()) as primary:
            await primary.create_topic("orders", queues=1)
            for number in range(9):
                await primary.sent("orders", b"%d" % number)
            primary.broker.offsets.commit("CG", "orders", 0, 3)
            async with replica_of(primary, tmp_path / "b") as replica:
                await until(lambda: replica.offsets.get("CG", "orders", 0) == 3)
                await primary.create_topic("late", queues=2)
                await primary.sent("late", queue_id=1)
                await heartbeat(primary, "young", ORDERS)
                primary.broker.offsets.commit("CG", "orders", 0, 7)
                await primary.sent("orders", b"delayed", "DELAY\x011\x02")
                store = primary.broker.store
                await until(lambda: store.queue_range("orders", 0)[1] == 10)
                await until(lambda: replica.store.max_log_offset == store.max_log_offset)
                assert replica.topics.get("late") is None and replica.groups.get("young") is None, "nothing is tested"
                await primary.broker.become(Role.REPLICA)
                await replica.become(Role.PRIMARY)
                late = replica.topics.get("late")
                assert late is not None and late.write_queue_nums == 2
                assert replica.offsets.get("CG", "orders", 0) == 3, "messages come again, and none is passed over"
                client = new_client()
                await heartbeat(Cluster(replica, client), "young", ORDERS)
                assert replica.groups.get("young") is not None
                await asyncio.sleep(2)  # the delay of level 1 is one second
                assert replica.store.queue_range("orders", 0)[1] == 10, "the log says that it was delivered"
                await client.close()

    asyncio.run(work())
