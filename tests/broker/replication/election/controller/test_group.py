"""Brokers of ours that a controller elects, in this process and over real sockets. The controller keeps the rules of
Apache's; with Apache's own: tests/interop/test_controller.py."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from gantrymq.admin import Admin
from gantrymq.admin.failover import carry_out, planned
from gantrymq.aio import Message, Producer
from gantrymq.broker.broker import Broker
from gantrymq.broker.replication.election.controller.identity import FILE
from gantrymq.broker.roles import Role
from gantrymq.demo.ports import free_port
from gantrymq.errors import ConfigError, GantryError
from gantrymq.message.send_status import SendStatus
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from tests.broker.replication.test_failover import bodies
from tests.broker.replication.test_pair import log_of
from tests.support.brokers import broker_config, until
from tests.support.controller import ModelController
from tests.support.controller_contract import play

LIMIT_S = 60
pytestmark = pytest.mark.slow


class Brokers:
    """Of one name. ``settings``: of each."""

    def __init__(self, root: Path, name_servers: str, controller: ModelController, **settings: Any) -> None:
        self._root, self.controller, self.name_servers = root, controller, name_servers
        self._settings = settings
        self.running: dict[str, Broker] = {}

    async def start(self, name: str) -> Broker:
        """The broker with a store of this name."""
        config = broker_config(self._root / name, **{
            "broker_role": "SLAVE", "broker_id": -1, "ha_listen_port": free_port(), "enable_controller_mode": True,
            "controller_addr": self.controller.address, "namesrv_addr": self.name_servers, "primary_lease": 1000,
            "flush_disk_type": "SYNC_FLUSH", "slave_timeout": 3000, **self._settings,
        })  # fmt: skip
        broker = Broker(config, TcpNetwork(), SystemClock(), SystemRng(), OsDisk())
        await broker.start()
        self.running[name] = broker
        return broker

    async def stop(self, name: str) -> None:
        await self.running.pop(name).close()

    async def close(self) -> None:
        for name in list(self.running):
            await self.stop(name)

    @property
    def primary(self) -> Broker | None:
        return next((one for one in self.running.values() if one.role is Role.PRIMARY and one.leads), None)

    @property
    def in_sync(self) -> list[int]:
        return self.controller.groups["broker-a"].in_sync

    async def await_set(self, size: int) -> None:
        """Until the controller has so many, and the primary knows it."""
        await until(lambda: len(self.in_sync) == size == self._known_to_primary())

    def _known_to_primary(self) -> int:
        group = None if self.primary is None else self.primary.group
        record = None if group is None else group.leadership.record
        return 0 if record is None else len(record.in_sync)

    async def send(self, *sent: bytes) -> None:
        """Each of them is acknowledged."""
        async with Producer("g", name_servers=self.name_servers) as producer:
            for body in sent:
                result = await producer.send(Message("orders", body))
                assert result.status is SendStatus.SEND_OK


Test = Callable[[Brokers], Coroutine[Any, Any, None]]


def on_brokers(root: Path, test: Test, **settings: Any) -> None:
    async def work() -> None:
        async with brokers(root, **settings) as found:
            await test(found)

    asyncio.run(work())


@contextlib.asynccontextmanager
async def brokers(root: Path, **settings: Any) -> AsyncIterator[Brokers]:
    async with contextlib.AsyncExitStack() as stack:
        names = NameServer(
            NameServerConfig(listen_host="127.0.0.1", listen_port=0), TcpNetwork(), SystemClock(), OsDisk()
        )
        await stack.enter_async_context(asyncio.timeout(LIMIT_S))
        address = await names.start()
        stack.push_async_callback(names.close)
        controller = ModelController()
        await controller.start()
        stack.push_async_callback(controller.stop)
        found = Brokers(root, address, controller, **settings)
        stack.push_async_callback(found.close)
        yield found


def number_of(broker: Broker) -> int:
    assert broker.group is not None
    return broker.group.broker_id


def test_the_first_is_elected_the_next_one_joins_and_takes_its_place(tmp_path: Path) -> None:
    async def work(group: Brokers) -> None:
        first = await group.start("a")
        await until(lambda: len(group.in_sync) == 1)
        second = await group.start("b")
        await group.await_set(2)
        assert group.primary is first and [number_of(one) for one in (first, second)] == [1, 2]
        sent = [b"%d" % number for number in range(50)]
        await group.send(*sent)
        await group.stop("a")
        first = await group.start("a")
        await group.await_set(2)
        assert group.primary is second and number_of(first) == 1, "the number stays with the disk"
        await group.send(b"behind")
        await until(lambda: log_of(first) == log_of(second))
        assert bodies(second) == Counter([*sent, b"behind"])

    on_brokers(tmp_path, work)


def test_alone_it_acknowledges_nothing_although_the_controller_says_that_it_may(tmp_path: Path) -> None:
    """Behind an election the set of Apache's controller is the new primary alone."""

    async def work(group: Brokers) -> None:
        for name in ("a", "b"):
            await group.start(name)
        await group.await_set(2)
        await group.send(b"both")
        old = next(name for name, one in group.running.items() if one is group.primary)
        await group.stop(old)
        (left,) = group.running.values()
        await until(lambda: group.in_sync == [number_of(left)] and left.role is Role.PRIMARY)
        with pytest.raises(GantryError):
            await asyncio.wait_for(group.send(b"alone"), 5)
        await group.start(old)
        await group.await_set(2)
        await group.send(b"both again")
        assert bodies(left)[b"both"] == bodies(left)[b"both again"] == 1

    on_brokers(tmp_path, work)


def test_without_the_controller_the_primary_goes_on_while_its_set_follows(tmp_path: Path) -> None:
    async def work(group: Brokers) -> None:
        for name in ("a", "b"):
            await group.start(name)
        await group.await_set(2)
        primary = group.primary
        port = int(group.controller.address.rpartition(":")[2])
        await group.controller.stop()
        assert primary is not None and primary.group is not None
        leadership = primary.group.leadership
        await until(lambda: bool(leadership.problem))
        assert group.controller.address in leadership.problem
        await group.send(b"without it")
        await group.controller.start(port)
        await until(lambda: not leadership.problem)
        assert group.primary is primary and leadership.epoch == 1
        await group.send(b"with it")

    on_brokers(tmp_path, work)


def test_a_primary_that_the_controller_takes_for_dead_steps_down_and_acknowledges_nothing(tmp_path: Path) -> None:
    async def work(group: Brokers) -> None:
        for name in ("a", "b"):
            await group.start(name)
        await group.await_set(2)
        old = group.primary
        assert old is not None
        await group.send(b"before")
        group.controller.dead("broker-a", number_of(old))
        await until(lambda: group.primary is not None and group.primary is not old)
        assert old.role is Role.REPLICA
        await group.await_set(2)
        await group.send(b"behind")
        new = group.primary
        assert new is not None
        await until(lambda: log_of(old) == log_of(new))

    on_brokers(tmp_path, work)


def test_whoever_says_that_another_broker_is_primary_is_not_believed(tmp_path: Path) -> None:
    async def work(group: Brokers) -> None:
        for name in ("a", "b"):
            await group.start(name)
        await group.await_set(2)
        primary = group.primary
        client = RemotingClient(TcpNetwork(), SystemClock(), SystemRng())
        for broker in group.running.values():
            extra = {"masterBrokerId": str(3 - number_of(broker)), "masterEpoch": "9", "syncStateSetEpoch": "9"}
            body = b'{"syncStateSet":[1],"syncStateSetEpoch":9}'
            answer = await client.call(broker.address, 1008, body=body, extra=extra, timeout_ms=5000)
            assert answer.code == 0
            assert broker.group is not None
            read = broker.group.leadership
            await until(lambda read=read: not read._told)  # type: ignore[misc]
        await group.send(b"still")
        assert group.primary is primary
        await client.close()

    on_brokers(tmp_path, work)


def test_a_lost_disk_is_a_new_member(tmp_path: Path) -> None:
    async def work(group: Brokers) -> None:
        for name in ("a", "b"):
            await group.start(name)
        await group.await_set(2)
        lost = next(name for name, one in group.running.items() if one is not group.primary)
        before = number_of(group.running[lost])
        await group.send(b"kept")
        await group.stop(lost)
        (tmp_path / lost / "gantry/disk").unlink()  # as in a restored backup
        assert (tmp_path / lost / FILE).exists()
        again = await group.start(lost)
        assert number_of(again) == 3 != before
        await until(lambda: 3 in group.in_sync)

    on_brokers(tmp_path, work)


def test_an_operator_names_the_next_primary(tmp_path: Path) -> None:
    async def work(group: Brokers) -> None:
        for name in ("a", "b"):
            await group.start(name)
        await group.await_set(2)
        before = group.primary
        await group.send(b"before")
        async with Admin(group.name_servers) as admin:
            await until(lambda: _known(admin))
            await until(
                lambda: all(one.group is not None and one.group.state().is_member for one in group.running.values())
            )
            plan = await planned(admin.brokers, "broker-a", None, forced=False)
            await carry_out(admin.brokers, plan, lambda _text: None, SystemClock())
        await until(lambda: group.primary not in (None, before))
        assert group.controller.groups["broker-a"].epoch == 2
        await group.await_set(2)
        await group.send(b"behind")

    on_brokers(tmp_path, work)


async def _known(admin: Admin) -> bool:
    with contextlib.suppress(GantryError):
        return sorted(place.broker_id for place in await admin.brokers.places())[0] == 0
    return False


def test_the_controller_of_these_tests_answers_as_apaches(tmp_path: Path) -> None:
    async def work() -> None:
        controller = ModelController()
        await controller.start()
        try:
            await asyncio.wait_for(play(controller.address), LIMIT_S)
        finally:
            await controller.stop()

    asyncio.run(work())


def test_without_a_controller_the_first_start_says_what_to_do(tmp_path: Path) -> None:
    async def work(group: Brokers) -> None:
        await group.controller.stop()
        with pytest.raises(ConfigError, match="controllerAddr"):
            await group.start("a")
        group.name_servers = ""
        with pytest.raises(ConfigError, match="set namesrvAddr"):
            await group.start("b")

    on_brokers(tmp_path, work)
