"""A broker and a name server in this process, for tests: no sockets, no files, and time that a test can move."""

from __future__ import annotations

import asyncio
import contextlib
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from types import TracebackType
from typing import Final, Self

from gantrymq.broker.broker import Broker
from gantrymq.client.connection import outside, portals
from gantrymq.client.connection.outside import StartedClient
from gantrymq.client.producer import Producer
from gantrymq.client.results import SendResult
from gantrymq.errors import Closed, ConfigError, GantryError
from gantrymq.message import system_topics
from gantrymq.message.message import Message, MessageView
from gantrymq.protocol.files.topics import TopicConfig
from gantrymq.runtime.clock import SystemClock
from gantrymq.testing.local import reading
from gantrymq.testing.local.at_rest import Rest
from gantrymq.testing.local.calls import Calls
from gantrymq.testing.local.clients import Clients
from gantrymq.testing.local.clock import VirtualClock
from gantrymq.testing.local.door import Checker, LocalDoor
from gantrymq.testing.local.loop import LocalLoop, can_be_asked
from gantrymq.testing.local.network import HOST, NAME_SERVER_PORT, LocalNetwork
from gantrymq.testing.local.passing import PassingTime
from gantrymq.testing.local.reading import OpenTransaction
from gantrymq.testing.local.servers import Servers, broker_config

_open: Final[list[LocalCluster]] = []
"""The cluster that clients of this process belong to; and, in a forked process, that of its parent."""


class UnclosedClientWarning(UserWarning):
    """A test ended and left a client open. The next test is not disturbed by it."""


class LocalCluster(PassingTime):
    """Use it in a ``with`` block, or let the pytest fixture ``gantry`` do it.

    Clients that are made while it is open and are given no ``outside=`` belong to it, whatever name server they ask:
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
        self.virtual_time = virtual_time
        self._patience = patience
        self._pid = os.getpid()
        self._used = False
        self._producer: Producer | None = None
        self._restore: Callable[[], None] = lambda: None

    # Life.

    def start(self) -> Self:
        """Begin; the same as entering a ``with`` block. Raises ConfigError when another one is open."""
        if any(cluster._pid == os.getpid() for cluster in _open):
            raise ConfigError(
                "a LocalCluster is open in this process already, and clients would not know which one is meant; "
                "close it first"
            )
        if self._used:
            raise Closed("a LocalCluster is started once; create a new one")
        self._used = True
        self._pid = os.getpid()
        loop = self._loop = LocalLoop()
        self._calls = Calls(loop)
        self._rest = Rest(loop, self._patience)
        self._clock = SystemClock()
        if self.virtual_time:
            self._clock = self._rest.clock = VirtualClock(self._clock.wall_ms(), self._rest.stirred)
        self._network = LocalNetwork(self._allowed, self._rest.stirred)
        self._servers = Servers(self._config, self._network, self._clock)
        self._clients = Clients(self._network, self._clock, self._client_started)
        _open.append(self)
        try:
            self._portal = self._rest.portal = portals.bring(loop, self, self._servers.close)
            self._calls.open = True
            self._calls.run(self._begin())
            self._restore = outside.replace_default(self._clients.outside)
        except BaseException:
            self.close()
            raise
        return self

    async def _begin(self) -> None:
        self._rest.begin()
        await self._servers.start()

    def close(self) -> None:
        """End everything. Warns of clients that are still open (UnclosedClientWarning) and ends those, too."""
        if self not in _open or os.getpid() != self._pid:
            return
        self._restore()
        forgotten = self._clients.forgotten()
        try:
            if self._calls.open:
                self._calls.run(self._end())
        finally:
            self._calls.open = False
            if self._rest.portal is not None:
                portals.take_away(self._rest.portal)
            _open.remove(self)
        for client in forgotten:
            words = f"a {client.name} made at {client.place} was not closed; use it in a `with` block, or call close()"
            warnings.warn(words, UnclosedClientWarning, stacklevel=2)

    async def _end(self) -> None:
        self._rest.end()
        self._clients.cut()
        if self._producer is not None:
            await self._producer.drop()
        for user in self._portal.users:
            if user is not self:
                with contextlib.suppress(GantryError):
                    await user.drop()  # type: ignore[attr-defined]
        await self._servers.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _client_started(self, endpoint: StartedClient) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if not can_be_asked(loop):
                raise ConfigError(
                    "a local cluster needs asyncio's own event loop in the test, for it must know when that has "
                    f"nothing to do; it cannot ask a loop of {type(loop).__module__}"
                )
            self._rest.foreign.add(loop)
        self._rest.endpoints.append(endpoint)

    # What a test asks.

    @property
    def name_servers(self) -> str:
        """An address that code under test may be given, for example by NAMESRV_ADDR."""
        return next(iter(self._allowed)) if self._allowed else f"{HOST}:{NAME_SERVER_PORT}"

    @property
    def broker(self) -> Broker:
        """The broker itself. It belongs to the loop of the cluster: for those who know what they do."""
        return self._servers.running

    def messages(self, topic: str) -> list[MessageView]:
        """All messages of a topic that consumers can get, the oldest first. Not half messages."""
        return self._calls.run(reading.messages(self._servers, topic))

    def dead_letters(self, group: str) -> list[MessageView]:
        """What a consumer group has failed to consume too often."""
        return self.messages(system_topics.dead_letter_topic(group))

    def open_transactions(self) -> list[OpenTransaction]:
        """Half messages that are neither committed nor rolled back, the oldest first."""
        return self._calls.run(reading.open_transactions(self._servers))

    # What a test does.

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Topics come into being with the first message, too; then consumers that run already learn of it later."""
        system_topics.check_topic(topic)
        config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, perm=6, attributes={})
        self._calls.run(self._create_topic(config))

    async def _create_topic(self, config: TopicConfig) -> None:
        known = self._loop.create_future()
        self.broker.topics.update(config)
        self.broker.registration.when_announced(lambda: None if known.done() else known.set_result(None))
        await known

    def send(self, message: Message) -> SendResult:
        """Send a message as another service would do it."""
        return self._calls.run(self._send(message))

    async def _send(self, message: Message) -> SendResult:
        if self._producer is None:
            self._producer = Producer("gantry", name_servers=self.name_servers, outside=self._clients.own_outside())
            await self._producer.start()
        return await self._producer.send(message)

    def door(self, group: str = "gantry", check: Checker | None = None, user: str | None = None) -> LocalDoor:
        """Send, end and read by values, without a client: ``with gantry.door("payments", check=...) as door: ...``

        ``check``: makes it a member of the producer group that answers check-backs. ``user``: whose permissions count,
        where the broker has users.
        """
        return LocalDoor(self._calls, self._servers, group, check, user)

    def restart_broker(self, *, kill: bool = True) -> None:
        """Start the broker again on its store, after a crash (``kill``: as by ``kill -9``) or in order."""
        self._calls.run(self._servers.restart_broker(kill=kill))

    def stop_broker(self) -> None:
        """The broker is gone, as by ``kill -9``, until ``start_broker``."""
        self._calls.run(self._servers.stop_broker())

    def start_broker(self) -> None:
        """Start the broker again on its store, behind ``stop_broker``."""
        self._calls.run(self._servers.start_broker())

    def kill(self, client: object) -> None:
        """Cut a client off for ever, as when its process is killed: it says goodbye to nobody, and what it sends or
        decides from now on arrives nowhere. May be called inside of its listener."""
        self._calls.run(self._clients.kill(client))
