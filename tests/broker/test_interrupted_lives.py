"""A broker is closed or is given another role, at the turns of the event loop of its start or of a change of its role.

Whatever is interrupted: everything ends, nothing listens any more, and the next start has what was acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gantrymq.broker.broker import Broker
from gantrymq.broker.roles import Role
from gantrymq.demo.ports import free_port
from gantrymq.runtime.addresses import split_address
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from tests.support.brokers import Cluster, broker_config, new_client, until

PRIMARY = {"broker_role": "ASYNC_MASTER", "broker_id": 0}
REPLICA = {"broker_role": "SLAVE", "broker_id": 1}
MOST_TURNS = 400
"""Those behind it only wait for the threads of the disk: how many they are depends on the machine."""
EACH_TURN = 16
"""From there on some turns are left out."""
pytestmark = pytest.mark.slow


class Lives:
    """The brokers of one store, one after the other."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ha_port, self._no_port = free_port(), free_port()
        self.disk = OsDisk()
        self.messages = 0

    def broker(self, role: dict[str, object]) -> Broker:
        """Its name server does not run, so that a start has something to wait for."""
        config = broker_config(
            self._root,
            ha_listen_port=self._ha_port,
            slave_timeout=50,
            namesrv_addr=f"127.0.0.1:{self._no_port}",
            **role,
        )
        return Broker(config, TcpNetwork(), SystemClock(), SystemRng(), self.disk)

    async def sends_one(self, broker: Broker) -> None:
        clients = Cluster(broker, new_client())
        await clients.create_topic("orders", queues=1)
        await clients.sent("orders", b"kept")
        await clients.client.close()
        self.messages += 1

    async def goes_on(self) -> None:
        """The next broker has every message, and takes one."""
        broker = self.broker(PRIMARY)
        await broker.start()
        assert broker.leads and broker.store.queue_range("orders", 0)[1] == self.messages
        await self.sends_one(broker)
        await broker.close()


def change_role(broker: Broker, role: dict[str, object]) -> None:
    """As an operator does it."""
    broker._config.replace(broker._config.current.replaced(**role))


async def after_turns(count: int, what: Callable[[], object], work: asyncio.Task[object]) -> bool:
    """Let the loop go on for so many turns, and do ``what``. Whether the work had ended before."""
    for _ in range(count):
        await asyncio.sleep(0)
    over = work.done()
    what()
    return over


def at_the_turns(root: Path, play: Callable[[Lives, int], Awaitable[bool]]) -> None:
    """``play``: interrupts something at a turn, and closes the broker. Whether there was nothing to interrupt."""

    async def work() -> None:
        lives, turn, over = Lives(root), 0, False
        first = lives.broker(PRIMARY)
        await first.start()
        await lives.sends_one(first)
        await first.close()
        while not over and turn < MOST_TURNS:
            before = asyncio.all_tasks()
            async with asyncio.timeout(20):
                over = await play(lives, turn)
                await until(lambda before=before: asyncio.all_tasks() <= before)  # type: ignore[misc]
                await lives.goes_on()
            turn += 1 if turn < EACH_TURN else turn // 2
        assert turn > 2, "nothing was interrupted"
        lives.disk.close()

    asyncio.run(work())


async def one_that_changes(
    lives: Lives, role: dict[str, object], other: dict[str, object], turn: int
) -> tuple[Broker, bool]:
    """A broker, so many turns behind an operator's command; and whether it has its new role already."""
    broker = lives.broker(role)
    await broker.start()
    change_role(broker, other)
    for _ in range(turn):
        await asyncio.sleep(0)
    return broker, turn > 0 and broker._named == other["broker_role"] and not broker._changing.locked()


async def ends(broker: Broker) -> None:
    """It is closed, and nobody listens there."""
    await broker.close()
    if broker.address:
        with pytest.raises(OSError):
            await asyncio.open_connection(*split_address(broker.address))


@pytest.mark.parametrize("role", [PRIMARY, REPLICA], ids=["primary", "replica"])
def test_a_start_is_cancelled(role: dict[str, object], tmp_path: Path) -> None:
    async def play(lives: Lives, turn: int) -> bool:
        broker = lives.broker(role)
        starting = asyncio.ensure_future(broker.start())
        over = await after_turns(turn, starting.cancel, starting)
        await asyncio.wait([starting])
        await ends(broker)
        return over

    at_the_turns(tmp_path, play)


@pytest.mark.parametrize(("role", "other"), [(PRIMARY, REPLICA), (REPLICA, PRIMARY)], ids=["to replica", "to primary"])
def test_a_role_is_changed_while_the_broker_starts(
    role: dict[str, object], other: dict[str, object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(lives: Lives, turn: int) -> bool:
        broker = lives.broker(role)
        starting = asyncio.ensure_future(broker.start())
        while not broker._started:  # until then nobody can ask for it
            await asyncio.sleep(0)
        over = await after_turns(turn, lambda: change_role(broker, other), starting)
        await starting
        wanted = Role.PRIMARY if other is PRIMARY else Role.REPLICA
        await until(lambda: broker.role is wanted and not broker._changing.locked())
        if wanted is Role.PRIMARY:
            await lives.sends_one(broker)
        await ends(broker)
        return over

    at_the_turns(tmp_path, play)
    assert "task broker.new role died" not in caplog.text


@pytest.mark.parametrize(("role", "other"), [(PRIMARY, REPLICA), (REPLICA, PRIMARY)], ids=["to replica", "to primary"])
def test_a_broker_is_closed_while_its_role_changes(
    role: dict[str, object], other: dict[str, object], tmp_path: Path
) -> None:
    async def play(lives: Lives, turn: int) -> bool:
        broker, over = await one_that_changes(lives, role, other, turn)
        await ends(broker)
        return over

    at_the_turns(tmp_path, play)


@pytest.mark.parametrize("role", [PRIMARY, REPLICA], ids=["primary", "replica"])
def test_a_role_is_changed_back_while_it_changes(role: dict[str, object], tmp_path: Path) -> None:
    other = REPLICA if role is PRIMARY else PRIMARY

    async def play(lives: Lives, turn: int) -> bool:
        broker, over = await one_that_changes(lives, role, other, turn)
        change_role(broker, role)
        wanted = Role.PRIMARY if role is PRIMARY else Role.REPLICA
        await until(lambda: broker.role is wanted and not broker._changing.locked())
        for _ in range(20):  # nothing of the first change comes later
            await asyncio.sleep(0)
        assert broker.role is wanted
        if wanted is Role.PRIMARY:
            await lives.sends_one(broker)
        await ends(broker)
        return over

    at_the_turns(tmp_path, play)
