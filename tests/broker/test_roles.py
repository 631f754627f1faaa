"""A broker changes its role while it runs: what goes on, what is refused, and that nothing is lost or decided twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gantrymq.access.remoting.requests import BROKER_ROWS
from gantrymq.broker.broker import Broker
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.write_gate import behind_gate, refused_with
from gantrymq.broker.roles import Role
from gantrymq.broker.write_gate import READ_ONLY, WriteGate
from gantrymq.demo.ports import free_port
from gantrymq.errors import StoreUnavailable, Unreachable
from gantrymq.message import flags
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.stored_message import scan
from gantrymq.runtime.addresses import split_address
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from tests.support.brokers import Cluster, broker_config, new_client, on_broker, until
from tests.support.doors import remoting
from tests.support.places import record

WRITES = {
    "SEND_MESSAGE", "SEND_MESSAGE_V2", "SEND_BATCH_MESSAGE", "SEND_REPLY_MESSAGE", "SEND_REPLY_MESSAGE_V2",
    "CONSUMER_SEND_MSG_BACK", "RECALL_MESSAGE", "END_TRANSACTION", "RESUME_CHECK_HALF_MESSAGE", "SEND_HALVES",
    "END_HALVES", "POP_MESSAGE", "ACK_MESSAGE", "BATCH_ACK_MESSAGE", "CHANGE_MESSAGE_INVISIBLETIME", "POP_ROLLBACK",
    "SET_MESSAGE_REQUEST_MODE", "UPDATE_CONSUMER_OFFSET", "UPDATE_AND_CREATE_TOPIC", "UPDATE_AND_CREATE_TOPIC_LIST",
    "DELETE_TOPIC_IN_BROKER", "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST",
    "DELETE_SUBSCRIPTIONGROUP", "UPDATE_AND_GET_GROUP_FORBIDDEN", "CLONE_GROUP_OFFSET", "INVOKE_BROKER_TO_RESET_OFFSET",
    "CLEAN_UNUSED_TOPIC", "COPY_TABLES", "POP_LITE_MESSAGE", "LITE_SUBSCRIPTION_CTL",
}  # fmt: skip
"""A new request that changes something goes here, and its operation says ``writes=True``."""


def test_every_request_of_a_broker_is_a_write_or_a_read(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        handlers = remoting(c.broker).handlers
        gated = behind_gate(handlers)
        refused = {RequestCode(code).name for code in handlers if gated[code] is not handlers[code]}
        assert refused == WRITES
        assert handlers.keys() <= BROKER_ROWS.keys(), "a request without a row counts as a write"

    on_broker(work, tmp_path)


def test_users_and_policies_are_changed_at_the_primary() -> None:
    """A broker without users has no such requests, so the test above does not see them."""
    tables = {code: lambda *_: None for code in BROKER_ROWS if RequestCode(code).name.startswith("AUTH_")}
    refused = {RequestCode(code).name for code, handler in behind_gate(tables).items() if handler is not tables[code]}
    assert refused == {f"AUTH_{verb}_{noun}" for verb in ("CREATE", "UPDATE", "DELETE") for noun in ("USER", "ACL")}


@pytest.mark.parametrize(
    ("request_code", "version", "answer"),
    [
        (RequestCode.SEND_MESSAGE_V2, 405, ResponseCode.SERVICE_NOT_AVAILABLE),
        (RequestCode.SEND_MESSAGE_V2, 513, ResponseCode.SYSTEM_BUSY),
        (RequestCode.END_TRANSACTION, 405, ResponseCode.SLAVE_NOT_AVAILABLE),
        (RequestCode.UPDATE_AND_CREATE_TOPIC, 513, ResponseCode.SYSTEM_ERROR),
        (RequestCode.AUTH_CREATE_USER, 513, ResponseCode.SYSTEM_ERROR),
        (RequestCode.ACK_MESSAGE, 513, ResponseCode.SERVICE_NOT_AVAILABLE),
    ],
)
def test_a_write_is_refused_as_a_slave_of_the_version_that_asks_does(
    request_code: RequestCode, version: int, answer: ResponseCode
) -> None:
    assert refused_with(BROKER_ROWS[request_code].operations[0], version) is answer


def test_a_replica_answers_reads_and_changes_nothing(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("orders", queues=1)
        await c.sent("orders", b"one")
        broker = c.broker
        await broker.become(Role.REPLICA)
        end, running = broker.store.appended, broker.duties.running
        assert not any(name in running for name in ("transactions", "delayed messages", "popped messages"))
        assert (await c.send("orders")).code in (ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_BUSY)
        assert (await c.create_topic("other")).code == ResponseCode.SYSTEM_ERROR
        assert [message.body for message in scan((await c.pull("orders")).body)] == [b"one"]
        with pytest.raises(StoreUnavailable, match="replica"):
            broker.store.append([record()])
        broker.offsets.commit("g", "orders", 0, 1)
        assert broker.offsets.get("g", "orders", 0) is None and not broker.topics.exists("other")
        assert broker.store.appended == end
        await broker.become(Role.PRIMARY)
        assert (await c.create_topic("other")).code == ResponseCode.SUCCESS
        await c.sent("orders", b"two")
        assert [message.body for message in scan((await c.pull("orders")).body)] == [b"one", b"two"]

    on_broker(work, tmp_path)


def test_a_change_of_roles_leaves_no_task_and_no_listener(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        broker = c.broker

        def counted() -> tuple[int, list[int]]:
            return len(asyncio.all_tasks()), sorted(len(one) for one in broker._heard())

        await broker.become(Role.REPLICA)
        replica = counted()
        await broker.become(Role.PRIMARY)
        primary = counted()
        for _ in range(3):
            await broker.become(Role.REPLICA)
            assert counted() == replica
            await broker.become(Role.PRIMARY)
            assert counted() == primary

    on_broker(work, tmp_path)


def test_a_held_pull_is_answered_when_the_role_changes_and_the_next_one_hears_of_messages(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("orders", queues=1)
        await c.sent("orders", b"one")
        held = asyncio.create_task(c.pull("orders", offset=1, sys_flag=6, suspend_timeout_millis=15_000))
        await until(lambda: len(c.broker.held_pulls) == 1)
        await c.broker.become(Role.REPLICA)
        assert (await held).code == ResponseCode.PULL_NOT_FOUND
        await c.broker.become(Role.PRIMARY)
        held = asyncio.create_task(c.pull("orders", offset=1, sys_flag=6, suspend_timeout_millis=15_000))
        await until(lambda: len(c.broker.held_pulls) == 1)
        await c.sent("orders", b"two")
        assert [message.body for message in scan((await held).body)] == [b"two"]

    on_broker(work, tmp_path)


def test_a_closed_gate_refuses() -> None:
    with pytest.raises(Refused) as refused:
        WriteGate(READ_ONLY).check()
    assert refused.value.reason is Refusal.READ_ONLY


def test_a_replica_asks_nobody_and_decides_nothing_and_a_primary_asks_again(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        asked: list[int] = []

        def heard(_address: str, command: Command) -> None:
            asked.append(command.code)

        client = new_client(requests=heard)
        beat = {"clientID": "c1", "producerDataSet": [{"groupName": "PG"}], "consumerDataSet": []}
        await client.call(c.broker.address, RequestCode.HEART_BEAT, None, json.dumps(beat).encode(), timeout_ms=9_000)
        await c.create_topic("orders", queues=1)
        await c.broker.become(Role.REPLICA)
        await c.broker.become(Role.PRIMARY)
        marks = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01u1\x02"
        await c.sent("orders", b"body", marks, sys_flag=flags.PREPARED, producer_group="PG")
        await c.broker.become(Role.REPLICA)
        await asyncio.sleep(1.2)
        assert asked == [] and len(c.broker.coordinator.table) == 0
        end = c.broker.store.appended
        await c.broker.become(Role.PRIMARY)
        assert len(c.broker.coordinator.table) == 1
        await until(lambda: asked == [RequestCode.CHECK_TRANSACTION_STATE])
        assert c.broker.store.appended == end
        await client.close()

    on_broker(work, tmp_path, transaction_time_out=500, transaction_check_interval=60_000)


@contextlib.asynccontextmanager
async def _broker_that_starts(root: Path) -> AsyncIterator[tuple[Broker, asyncio.Task[str]]]:
    """A replica that serves, and is not started yet: its name server is silent."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    name_server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with name_server:
        config = broker_config(
            root, broker_role="SLAVE", broker_id=1, ha_listen_port=free_port(), register_broker_timeout_mills=1_000,
            namesrv_addr=f"127.0.0.1:{name_server.sockets[0].getsockname()[1]}",
        )  # fmt: skip
        broker = Broker(config, TcpNetwork(), SystemClock(), SystemRng(), OsDisk())
        starting = asyncio.create_task(broker.start())
        await until(lambda: broker._started)
        try:
            yield broker, starting
        finally:
            await asyncio.gather(starting, return_exceptions=True)
            await broker.close()


def test_an_operator_changes_the_role_of_a_broker_that_is_not_started_yet(tmp_path: Path) -> None:
    """Seed 607486 of ``gantry simulate --pair``: the start and the new role both opened the HA port, and nothing was
    taken any more."""

    async def work() -> None:
        async with _broker_that_starts(tmp_path) as (broker, starting):
            c = Cluster(broker, new_client())
            changed = b"brokerRole=ASYNC_MASTER\nbrokerId=0\n"
            answer = await c.ask(RequestCode.UPDATE_BROKER_CONFIG, None, changed)
            assert answer.code == ResponseCode.SUCCESS and not starting.done()
            await starting
            await until(lambda: broker.leads and not broker._changing.locked())
            assert (await c.create_topic("orders")).code == ResponseCode.SUCCESS
            await c.sent("orders", b"taken")
            _, writer = await asyncio.open_connection("127.0.0.1", broker._config.current.replication.ha_listen_port)
            writer.close()
            await c.client.close()

    asyncio.run(work())


def test_a_broker_whose_start_is_cancelled_leaves_nothing_behind_when_it_is_closed(tmp_path: Path) -> None:
    async def work() -> None:
        before = len(asyncio.all_tasks())
        async with _broker_that_starts(tmp_path) as (broker, starting):
            starting.cancel()
            await asyncio.wait([starting])
            await broker.close()
            with pytest.raises(OSError):
                await asyncio.open_connection(*split_address(broker.address))
        await until(lambda: len(asyncio.all_tasks()) == before)

    asyncio.run(work())


def test_a_broker_whose_ha_port_is_taken_is_closed_again(tmp_path: Path) -> None:
    async def work() -> None:
        taken = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        async with taken:
            config = broker_config(tmp_path, ha_listen_port=taken.sockets[0].getsockname()[1])
            broker = Broker(config, TcpNetwork(), SystemClock(), SystemRng(), OsDisk())
            with pytest.raises(Unreachable, match="in use"):
                await broker.start()
        with pytest.raises(OSError):
            await asyncio.open_connection(*split_address(broker.address))
        again = Broker(config, TcpNetwork(), SystemClock(), SystemRng(), OsDisk())
        await again.start()  # the store is not locked
        await again.close()

    asyncio.run(work())
