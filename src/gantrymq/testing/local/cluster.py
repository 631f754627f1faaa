"""A broker and a name server in this process, for tests: no sockets, no files, and time that a test can move."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import warnings
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from gantrymq.broker.broker import Broker
from gantrymq.client.connection import doors, portal
from gantrymq.client.connection.doors import Doors
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.producer import Producer
from gantrymq.client.results import SendResult
from gantrymq.errors import Closed, ConfigError, GantryError, UsedAfterFork
from gantrymq.message import system_topics
from gantrymq.message.message import Message, MessageView
from gantrymq.protocol.bodies.topics import TopicConfig
from gantrymq.protocol.stored_message import scan, to_view
from gantrymq.runtime.clock import Clock, SystemClock
from gantrymq.testing.local.clients import Clients
from gantrymq.testing.local.clock import VirtualClock
from gantrymq.testing.local.loop import LocalLoop, can_be_asked
from gantrymq.testing.local.network import HOST, NAME_SERVER_PORT, LocalNetwork
from gantrymq.testing.local.rest import Rest
from gantrymq.testing.local.servers import Servers, broker_config

T = TypeVar("T")

LOOK_AGAIN_S: Final = 0.002
READ_AT_ONCE: Final = 1024
READ_BYTES: Final = 64 * 1024 * 1024
_active: Final[list[LocalCluster]] = []


class UnclosedClientWarning(UserWarning):
    """A test ended and left a client open. The next test is not disturbed by it."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A half message that is neither committed nor rolled back."""

    transaction_id: str
    topic: str
    producer_group: str
    checks: int
    """How often the broker has asked a producer about it."""


class LocalCluster:
    """Use it in a ``with`` block, or let the pytest fixture ``gantry`` do it.

    Clients that are made while it is open and are given no ``doors=`` belong to it, whatever name server they ask:
    code under test needs no change. One at a time.
    """

    def __init__(
        self,
        *,
        virtual_time: bool = False,
        name_servers: str | Iterable[str] | None = None,
        broker: Mapping[str, object] | None = None,
        patience: float = 10.0,
    ) -> None:
        """``virtual_time``: time passes by ``advance`` only, and while the test waits for a client.

        ``name_servers``: the only addresses of name servers that clients may use; None: any address will do.
        ``broker``: settings by RocketMQ's keys, ``{"transactionTimeOut": 2000}``. ``patience``: real seconds that a
        listener may take before time passes; then ``advance`` raises NotAtRest.
        """
        given = name_servers.split(";") if isinstance(name_servers, str) else name_servers
        self._allowed: Collection[str] | None = None if given is None else [address.strip() for address in given]
        self._config = broker_config(broker or {})
        self._loop = LocalLoop()
        self._rest = Rest(self._loop, patience)
        self.virtual_time = virtual_time
        self._clock: Clock = SystemClock()
        if virtual_time:
            self._clock = self._rest.clock = VirtualClock(self._clock.wall_ms(), self._rest.stirred)
        self._network = LocalNetwork(self._allowed, self._rest.stirred)
        self._servers = Servers(self._config, self._network, self._clock)
        self._clients = Clients(self._network, self._clock, self._client_started)
        self._portal: portal.Portal | None = None
        self._restore: Callable[[], None] = lambda: None
        self._producer: Producer | None = None
        self._pid = os.getpid()
        self._used = False

    # Life.

    def start(self) -> Self:
        """Begin; the same as entering a ``with`` block. Raises ConfigError when another one is open."""
        if _active:
            raise ConfigError(
                "a LocalCluster is open in this process already, and clients would not know which one is meant; "
                "close it first"
            )
        if self._used:
            raise Closed("a LocalCluster is started once; create a new one")
        self._used = True
        _active.append(self)
        try:
            self._portal = self._rest.portal = portal.bring(self._loop, self, self._servers.close)
            self._run(self._begin())
            self._restore = doors.replace_default(self._clients.doors)
        except BaseException:
            self.close()
            raise
        return self

    async def _begin(self) -> None:
        self._rest.begin()
        await self._servers.start()

    def close(self) -> None:
        """End everything. Warns of clients that are still open (UnclosedClientWarning) and ends those, too."""
        if self not in _active or os.getpid() != self._pid:
            return
        self._restore()
        forgotten = self._clients.forgotten()
        try:
            with contextlib.suppress(Closed):
                self._run(self._end())
        finally:
            if self._portal is not None:
                portal.take_away(self._portal)
            _active.remove(self)
        for client in forgotten:
            words = f"a {client.name} made at {client.place} was not closed; use it in a `with` block, or call close()"
            warnings.warn(words, UnclosedClientWarning, stacklevel=2)

    async def _end(self) -> None:
        self._rest.end()
        if self._producer is not None:
            await self._producer.drop()
        for client in [client for client in self._clients.made if client.endpoint is not None]:
            client.network.cut()
        users = [user for user in self._portal.users if user is not self] if self._portal is not None else []
        for user in users:
            with contextlib.suppress(GantryError):
                await user.drop()  # type: ignore[attr-defined]
        await self._servers.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _client_started(self, endpoint: Endpoint) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if not can_be_asked(loop):
                raise ConfigError(
                    "a local cluster needs asyncio's own event loop in the test, for it must know when that has "
                    f"nothing to do; it cannot ask a {type(loop).__module__} loop"
                )
            self._rest.foreign.add(loop)
        self._rest.endpoints.append(endpoint)

    # Addresses and doors.

    @property
    def name_servers(self) -> str:
        """An address that code under test may be given, for example by NAMESRV_ADDR."""
        return next(iter(self._allowed)) if self._allowed else f"{HOST}:{NAME_SERVER_PORT}"

    @property
    def broker(self) -> Broker:
        """The broker itself. Belongs to the cluster's loop; for those who know what they do."""
        if self._servers.broker is None:
            raise Closed("the broker does not run; call restart_broker()")
        return self._servers.broker

    # Time.

    def time(self) -> float:
        """Seconds since 1970, as the broker and the clients see them."""
        return self._clock.wall_ms() / 1000

    def advance(self, seconds: float) -> None:
        """Let time pass: what becomes due happens in order; return when everything that follows from it is done.

        Needs ``virtual_time``. In ``async def`` code: ``await advance_async(seconds)``.
        """
        self._wait(self._advance(seconds), "advance")

    async def advance_async(self, seconds: float) -> None:
        """``advance`` for ``async def`` code."""
        await self._await(self._advance(seconds))

    def settle(self) -> None:
        """Return when all that can happen now has happened: messages are delivered, listeners have ended."""
        self._wait(self._rest.reach(None), "settle")

    async def settle_async(self) -> None:
        """``settle`` for ``async def`` code."""
        await self._await(self._rest.reach(None))

    def wait_until(self, condition: Callable[[], object], seconds: float = 10.0) -> None:
        """Return as soon as ``condition()`` is true; TimeoutError after so many seconds. Virtual time passes meanwhile,
        from one event to the next."""
        deadline = self._clock.monotonic() + seconds
        while not condition():
            if self._clock.monotonic() >= deadline:
                raise TimeoutError(_never(condition, seconds))
            if self.virtual_time:
                self._wait(self._rest.reach(deadline, one_step=True), "wait_until")
            else:
                time.sleep(LOOK_AGAIN_S)

    async def wait_until_async(self, condition: Callable[[], object], seconds: float = 10.0) -> None:
        """``wait_until`` for ``async def`` code."""
        deadline = self._clock.monotonic() + seconds
        while not condition():
            if self._clock.monotonic() >= deadline:
                raise TimeoutError(_never(condition, seconds))
            if self.virtual_time:
                await self._await(self._rest.reach(deadline, one_step=True))
            else:
                await asyncio.sleep(LOOK_AGAIN_S)

    async def _advance(self, seconds: float) -> None:
        clock = self._rest.clock
        if clock is None:
            raise ConfigError(
                "time passes by itself in this cluster; for advance() open it with virtual_time=True, or mark the test "
                "with @pytest.mark.gantry(virtual_time=True)"
            )
        await self._rest.reach(clock.monotonic() + seconds)

    # What a test asks.

    def messages(self, topic: str) -> list[MessageView]:
        """All messages of a topic that consumers can get, the oldest first. Not half messages."""
        return self._run(self._messages(topic))

    async def _messages(self, topic: str) -> list[MessageView]:
        store, found = self.broker.store, []
        for queue_id in [queue_id for name, queue_id in store.queues() if name == topic]:
            offset, end = store.queue_range(topic, queue_id)
            while offset < end:
                got = store.get(topic, queue_id, offset, READ_AT_ONCE, READ_BYTES)
                found += [to_view(record, self._config.broker_name) for record in scan(got.data)]
                offset = max(got.next_offset, offset + 1)
        return sorted(found, key=lambda view: view.log_offset)

    def dead_letters(self, group: str) -> list[MessageView]:
        """What a consumer group has failed to consume too often."""
        return self.messages(system_topics.dead_letter_topic(group))

    def open_transactions(self) -> list[OpenTransaction]:
        """Half messages that are neither committed nor rolled back, the oldest first."""
        return self._run(self._open_transactions())

    async def _open_transactions(self) -> list[OpenTransaction]:
        return [
            OpenTransaction(half.unique_key, half.real_topic, half.group, half.times_asked)
            for half in self.broker.coordinator.table
        ]

    # What a test does.

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Topics come into being with the first message, too; then consumers that run already learn of it later."""
        system_topics.check_topic(topic)
        self._run(self._create_topic(topic, queues))

    async def _create_topic(self, topic: str, queues: int) -> None:
        config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, perm=6, attributes={})
        self.broker.topics.update(config)
        known = self._loop.create_future()
        self.broker.registration.when_announced(lambda: None if known.done() else known.set_result(None))
        await known

    def send(self, message: Message) -> SendResult:
        """Send a message as another service would do it."""
        return self._run(self._send(message))

    async def _send(self, message: Message) -> SendResult:
        if self._producer is None:
            own = Doors(self._network.of(None), self._clock)
            self._producer = Producer("gantry-test", name_servers=self.name_servers, doors=own)
            await self._producer.start()
        return await self._producer.send(message)

    def restart_broker(self, *, kill: bool = True) -> None:
        """Start the broker again on its store, after a crash (``kill``: as by ``kill -9``) or in order."""
        self._run(self._restart(kill))

    async def _restart(self, kill: bool) -> None:
        if kill:
            self._servers.kill_broker()
        else:
            await self._servers.stop_broker()
        await self._servers.start_broker()

    def kill(self, client: object) -> None:
        """Cut a client off for ever, as when its process is killed: it says goodbye to nobody, and what it sends or
        decides from now on arrives nowhere. May be called inside of its listener."""
        self._run(self._kill(client))

    async def _kill(self, client: object) -> None:
        self._clients.of(client).network.cut()

    # How calls get to the cluster's loop.

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done that needs no time to pass and nobody else; may be called anywhere but on the loop."""
        try:
            portal.check_thread()
            return self._submit(work).result()
        finally:
            work.close()

    def _wait(self, work: Coroutine[Any, Any, T], name: str) -> T:
        try:
            if asyncio._get_running_loop() is not None:
                raise RuntimeError(
                    f"{name}() would stop the event loop that it has to wait for; write: await gantry.{name}_async(...)"
                )
            return self._submit(work).result()
        finally:
            work.close()

    async def _await(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await asyncio.wrap_future(self._submit(work))
        finally:
            work.close()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if os.getpid() != self._pid:
            raise UsedAfterFork("this LocalCluster belongs to the parent process; start one after the fork")
        if self not in _active or self._portal is None:
            raise Closed("this LocalCluster is not open; use it in a `with` block")
        return asyncio.run_coroutine_threadsafe(work, self._loop)


def _never(condition: Callable[[], object], seconds: float) -> str:
    return f"{getattr(condition, '__qualname__', condition)} did not become true within {seconds:g} s"
