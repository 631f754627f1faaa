"""``gantry cluster failover`` in a group that elects its primary: three brokers in this process, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gantrymq.admin import Admin
from gantrymq.admin.failover import carry_out, planned
from gantrymq.broker.broker import Broker
from gantrymq.broker.replication.election.record import Record, encode
from gantrymq.broker.replication.election.record_store import NEVER, Held
from gantrymq.broker.roles import Role
from gantrymq.demo.ports import free_port
from gantrymq.errors import ConfigError, RequestRejected, Unreachable
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from tests.broker.replication.test_failover import bodies, sent_meanwhile
from tests.broker.replication.test_pair import log_of
from tests.support.brokers import broker_config, cluster, until

LIMIT_S = 60


class Records:
    """A ``RecordStore`` in this process."""

    def __init__(self) -> None:
        self.held = Held(None, NEVER)
        self.away = False

    async def read(self) -> Held:
        if self.away:
            raise Unreachable("etcd", "it is away")
        return self.held

    async def replace(self, held: Held, record: Record) -> Held | None:
        if self.away:
            raise Unreachable("etcd", "it is away")
        if held.revision != self.held.revision:
            return None
        encode(record)
        self.held = Held(record, held.revision + 1)
        return self.held


class Group:
    """Three brokers of one name."""

    def __init__(self, root: Path, name_servers: str) -> None:
        self.records = Records()
        self.brokers = [
            Broker(
                broker_config(
                    root / str(number), broker_role="SLAVE", broker_id=number, ha_listen_port=free_port(),
                    etcd_addr="127.0.0.1:1", namesrv_addr=name_servers, flush_disk_type="SYNC_FLUSH",
                    slave_timeout=3000,
                ),
                TcpNetwork(), SystemClock(), SystemRng(), OsDisk(), records=self.records,
            )
            for number in (1, 2, 3)
        ]  # fmt: skip

    @property
    def primary(self) -> Broker | None:
        return next((broker for broker in self.brokers if broker.role is Role.PRIMARY and broker.leads), None)

    @property
    def is_whole(self) -> bool:
        record = self.records.held.record
        return self.primary is not None and record is not None and len(record.in_sync) == 3 and self.all_know

    @property
    def all_know(self) -> bool:
        """Whether each broker has read the in-sync set as it is now."""
        record, led = self.records.held.record, [one.group.leadership for one in self.brokers if one.group is not None]
        return record is not None and all(
            one.record is not None and one.record.in_sync == record.in_sync for one in led
        )


@contextlib.asynccontextmanager
async def group(root: Path) -> AsyncIterator[tuple[Group, Admin]]:
    async with contextlib.AsyncExitStack() as stack:
        names = NameServer(
            NameServerConfig(listen_host="127.0.0.1", listen_port=0), TcpNetwork(), SystemClock(), OsDisk()
        )
        await stack.enter_async_context(asyncio.timeout(LIMIT_S))
        address = await names.start()
        stack.push_async_callback(names.close)
        found = Group(root, address)
        for broker in found.brokers:
            await broker.start()
            stack.push_async_callback(broker.close)
        admin = await stack.enter_async_context(Admin(address))
        await until(lambda: found.is_whole)
        await until(lambda: known(admin, 3))
        yield found, admin


async def known(admin: Admin, count: int) -> bool:
    """Whether the name servers know so many of them, one of them as primary."""
    with contextlib.suppress(Unreachable):
        places = await admin.brokers.places()
        return len(places) == count and any(place.broker_id == 0 for place in places)
    return False


@pytest.mark.slow
def test_the_named_broker_becomes_primary_and_the_one_before_follows(tmp_path: Path) -> None:
    async def work() -> None:
        async with group(tmp_path) as (brokers, admin):
            stop, sent = asyncio.Event(), list[bytes]()
            load = asyncio.create_task(sent_meanwhile(brokers.brokers[0]._config.network.namesrv_addr, stop, sent))
            await until(lambda: len(sent) > 20)
            for _ in range(2):
                before, epoch = brokers.primary, brokers.records.held.record.epoch  # type: ignore[union-attr]
                wanted = next(place for place in reversed(await admin.brokers.places()) if place.broker_id)
                plan = await planned(admin.brokers, "broker-a", wanted.broker_id, forced=False)
                assert plan.target == wanted and plan.elects
                await carry_out(admin.brokers, plan, lambda _text: None, SystemClock())
                assert brokers.primary is not None and brokers.primary.address == wanted.address
                assert before is not brokers.primary
                record = brokers.records.held.record
                assert record is not None and record.epoch == epoch + 1 and not record.yields
                count = len(sent)
                await until(lambda count=count: len(sent) > count + 20)  # type: ignore[misc]
                await until(lambda: brokers.is_whole)
                await until(lambda: known(admin, 3))
            stop.set()
            assert await load == 0, "a send was refused"
            await until(lambda: len({log_of(broker) for broker in brokers.brokers}) == 1)
            assert brokers.primary is not None
            found = bodies(brokers.primary)
            assert {body: found[body] for body in sent if found[body] != 1} == {}

    asyncio.run(work())


@pytest.mark.slow
@pytest.mark.pure("a method of the core is replaced")
def test_it_is_refused_clearly_and_the_primary_goes_on(tmp_path: Path) -> None:
    async def work() -> None:
        async with group(tmp_path) as (brokers, admin):
            primary, records = brokers.primary, brokers.records
            assert primary is not None and primary.group is not None
            with pytest.raises(ConfigError, match="leave out --force"):
                await planned(admin.brokers, "broker-a", None, forced=True)
            with pytest.raises(ConfigError, match="no replica with brokerId 7"):
                await planned(admin.brokers, "broker-a", 7, forced=False)
            plan = await planned(admin.brokers, "broker-a", None, forced=False)
            place = plan.primary
            assert place is not None

            with pytest.raises(RequestRejected, match="not in the in-sync set"):
                await admin.brokers.elect(place, 77)
            with pytest.raises(RequestRejected, match="is the primary already"):
                await admin.brokers.elect(place, primary.group.leadership.me.disk)
            with pytest.raises(RequestRejected, match="ask the primary"):
                await admin.brokers.elect(plan.target, plan.elects)
            records.away = True
            with pytest.raises(RequestRejected, match="repair etcd"):
                await admin.brokers.elect(place, plan.elects)
            with pytest.raises(ConfigError, match=r"cannot hand over: the record .* cannot be"):
                await planned(admin.brokers, "broker-a", None, forced=False)
            records.away = False
            await until(lambda: brokers.is_whole)
            assert brokers.primary is primary and not primary.store.follows, "it takes writes again"

            record = records.held.record
            assert record is not None
            disk = plan.elects  # it leaves the set, and no replica is left that could be elected
            others = {one.group.leadership.me.disk for one in brokers.brokers if one.group is not None} - {disk}
            primary.group.in_sync().right = lambda: frozenset(others)  # type: ignore[method-assign]
            await until(lambda: (now := records.held.record) is not None and now.in_sync == others)
            await until(lambda: brokers.all_know)
            with pytest.raises(ConfigError, match="may lack what was acknowledged"):
                await planned(admin.brokers, "broker-a", plan.target.broker_id, forced=False)

    asyncio.run(work())


@pytest.mark.slow
def test_a_successor_that_does_not_stand_leaves_the_group_without_primary_for_a_lease_only(tmp_path: Path) -> None:
    async def work() -> None:
        async with group(tmp_path) as (brokers, admin):
            plan = await planned(admin.brokers, "broker-a", None, forced=False)
            target = next(broker for broker in brokers.brokers if broker.address == plan.target.address)
            assert plan.primary is not None and target.group is not None
            await target.group.leadership.stop()  # it follows, and stands no more
            await admin.brokers.elect(plan.primary, plan.elects)
            await until(lambda: (now := brokers.records.held.record) is not None and now.epoch == 2)
            await until(lambda: brokers.primary is not None)
            record = brokers.records.held.record
            assert brokers.primary is not target and record is not None and not record.yields

    asyncio.run(work())


def test_a_broker_without_a_group_says_what_to_do(tmp_path: Path) -> None:
    async def work() -> None:
        async with cluster(tmp_path, with_name_server=True) as running:
            assert running.name_server is not None
            async with Admin(running.name_server.address) as admin:
                place = (await admin.brokers.places())[0]
                with pytest.raises(RequestRejected, match="has no etcdAddr"):
                    await admin.brokers.elect(place, 1)

    asyncio.run(work())
