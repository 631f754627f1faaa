"""A SYNC_MASTER starts again: what no replica has confirmed is neither visible nor decided until one has it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from gantrymq.broker.replication.duties import NOTE_S
from gantrymq.broker.roles import Role
from gantrymq.demo.ports import free_port
from gantrymq.message import flags
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.protocol.stored_message import scan
from tests.broker.replication.test_pair import HA, kept, log_of, replica_of
from tests.support.brokers import Cluster, cluster, new_client, until

HALF = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01k1\x02"
SETTINGS: dict[str, Any] = {**HA, "slave_timeout": 1000}


def is_there(primary: Cluster) -> bool:
    """Whether a replica follows."""
    copies = primary.broker._copies
    return copies is not None and copies.available


async def bodies(broker: Cluster, topic: str = "orders") -> list[bytes]:
    answer = await broker.pull(topic)
    return [message.body for message in scan(answer.body)] if answer.code == ResponseCode.SUCCESS else []


@contextlib.asynccontextmanager
async def unconfirmed(tmp_path: Path) -> AsyncIterator[Cluster]:
    """A primary that was stopped with one message that its replica has, and one that only it has."""
    async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port(), **SETTINGS) as primary:
        await primary.create_topic("orders", queues=1)
        async with replica_of(primary, tmp_path / "b"):
            await until(lambda: is_there(primary))
            await primary.sent("orders", b"both have it")
        await until(lambda: not is_there(primary))
        assert (await primary.send("orders", b"alone")).code == ResponseCode.SLAVE_NOT_AVAILABLE
    async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port(), **SETTINGS) as primary:
        yield primary


def test_what_no_replica_has_confirmed_is_not_visible_after_a_restart(tmp_path: Path) -> None:
    async def work() -> None:
        async with unconfirmed(tmp_path) as primary:
            assert await bodies(primary) == [b"both have it"]
            refused = await primary.send("orders", b"too early")
            assert refused.code == ResponseCode.SYSTEM_BUSY and "replica has confirmed" in (refused.remark or "")
            async with replica_of(primary, tmp_path / "b"):
                await until(lambda: primary.broker.leads)
                assert await bodies(primary) == [b"both have it", b"alone"]
                assert (await primary.sent("orders", b"later")).queue_offset == 2
                assert is_there(primary), "the replica stays connected"

    asyncio.run(work())


def test_a_primary_that_waits_for_its_replica_goes_on_as_asynchronous_one(tmp_path: Path) -> None:
    async def work() -> None:
        async with unconfirmed(tmp_path) as primary:
            config = primary.broker._config
            config.replace(config.current.replaced(broker_role="ASYNC_MASTER"))
            await until(lambda: primary.broker.leads)
            assert await bodies(primary) == [b"both have it", b"alone"]
            await primary.sent("orders", b"later")
        async with cluster(tmp_path / "a", ha_listen_port=free_port(), **SETTINGS) as primary:
            assert len(await bodies(primary)) == 3, "all of it was visible, so it is confirmed"

    asyncio.run(work())


def test_an_end_that_no_replica_has_confirmed_is_not_repeated_and_its_half_is_not_asked(tmp_path: Path) -> None:
    """The half is at both, and its commit only at the primary when that is started again."""
    asked: list[int] = []
    more: dict[str, Any] = {**SETTINGS, "transaction_time_out": 100, "transaction_check_interval": 100}

    async def work() -> None:
        client = new_client(requests=lambda _address, command: asked.append(command.code))
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port(), **more) as primary:
            await primary.create_topic("orders", queues=1)
            async with replica_of(primary, tmp_path / "b"):
                await until(lambda: is_there(primary))
                half = await primary.sent("orders", b"paid", HALF, sys_flag=flags.PREPARED)
            await until(lambda: not is_there(primary))
            header = EndTransaction(
                producer_group="PG", tran_state_table_offset=half.queue_offset, transaction_id="k1",
                commit_log_offset=int(half.msg_id[16:], 16), commit_or_rollback=flags.COMMITTED, msg_id="k1",
            )  # fmt: skip
            answer = await primary.ask(RequestCode.END_TRANSACTION, header)
            assert answer.code != ResponseCode.SUCCESS, "nobody else has it"
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port(), **more) as primary:
            beat = {"clientID": "c1", "producerDataSet": [{"groupName": "PG"}], "consumerDataSet": []}
            await client.call(
                primary.broker.address, RequestCode.HEART_BEAT, None, json.dumps(beat).encode(), timeout_ms=9_000
            )
            assert (await primary.ask(RequestCode.END_TRANSACTION, header)).code == ResponseCode.SLAVE_NOT_AVAILABLE
            await asyncio.sleep(0.5)
            assert await bodies(primary) == []
            async with replica_of(primary, tmp_path / "b"):
                await until(lambda: primary.broker.leads)
                assert (await primary.ask(RequestCode.END_TRANSACTION, header)).code == ResponseCode.SUCCESS
                await asyncio.sleep(0.5)
                assert await bodies(primary) == [b"paid"] and asked == []
        await client.close()

    asyncio.run(work())


def test_what_a_replica_has_confirmed_is_visible_at_once_after_a_kill(tmp_path: Path) -> None:
    """The position is noted while the broker runs. Its directory as it was then is what a kill leaves."""

    async def work() -> None:
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port(), **SETTINGS) as primary:
            await primary.create_topic("orders", queues=1)
            async with replica_of(primary, tmp_path / "b"):
                await until(lambda: is_there(primary))
                await primary.sent("orders", b"one")
                await asyncio.sleep(2 * NOTE_S)
                shutil.copytree(tmp_path / "a", tmp_path / "killed")
        async with cluster(tmp_path / "killed", ha_listen_port=free_port(), **SETTINGS) as primary:
            assert primary.broker.leads and await bodies(primary) == [b"one"]

    asyncio.run(work())


def test_a_former_primary_shows_its_readers_nothing_that_nobody_had_confirmed(tmp_path: Path) -> None:
    """Before it knows whether the new primary has it. What that one has not is listed, and cut."""

    async def work() -> None:
        async with unconfirmed(tmp_path):
            pass
        async with replica_of_nobody(tmp_path / "a") as back:
            assert await bodies(back) == [b"both have it"]
        async with cluster(tmp_path / "b", with_name_server=True, ha_listen_port=free_port()) as new:
            await new.sent("orders", b"of the new one")
            async with replica_of(new, tmp_path / "a") as broker:
                await until(lambda: log_of(broker) == log_of(new.broker))
                await until(lambda: broker.store.max_log_offset == new.broker.store.written)
                assert await bodies(Cluster(broker, new.client)) == [b"both have it", b"of the new one"]
                assert [line["kind"] for line in kept(tmp_path / "a")] == ["message"]
                await new.sent("orders", b"next")
                await until(lambda: broker.store.max_log_offset == new.broker.store.written)

    asyncio.run(work())


def test_a_former_primary_shows_everything_when_the_new_one_has_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with unconfirmed(tmp_path) as primary:
            shutil.copytree(tmp_path / "a" / "commitlog", tmp_path / "c" / "commitlog")
            assert not primary.broker.leads
        async with cluster(tmp_path / "c", with_name_server=True, ha_listen_port=free_port()) as new:
            await new.create_topic("orders", queues=1)
            async with replica_of(new, tmp_path / "a") as broker:
                await until(lambda: broker.store.max_log_offset == new.broker.store.written)
                assert await bodies(Cluster(broker, new.client)) == [b"both have it", b"alone"]

    asyncio.run(work())


@contextlib.asynccontextmanager
async def replica_of_nobody(root: Path) -> AsyncIterator[Cluster]:
    async with cluster(root, broker_role="SLAVE", broker_id=1) as replica:
        yield replica


def test_a_primary_whose_failover_broke_off_waits_with_what_nobody_had_confirmed(tmp_path: Path) -> None:
    """It became a replica, found no primary, and is primary again."""

    async def work() -> None:
        async with cluster(tmp_path / "a", with_name_server=True, ha_listen_port=free_port(), **SETTINGS) as primary:
            await primary.create_topic("orders", queues=1)
            async with replica_of(primary, tmp_path / "b"):
                await until(lambda: is_there(primary))
                await primary.sent("orders", b"both have it")
            await until(lambda: not is_there(primary))
            assert (await primary.send("orders", b"alone")).code == ResponseCode.SLAVE_NOT_AVAILABLE
            await primary.broker.become(Role.REPLICA)
            assert await bodies(primary) == [b"both have it"]
            await primary.broker.become(Role.PRIMARY)
            assert await bodies(primary) == [b"both have it"] and not primary.broker.leads
            async with replica_of(primary, tmp_path / "b"):
                await until(lambda: primary.broker.leads)
                assert await bodies(primary) == [b"both have it", b"alone"]

    asyncio.run(work())
