"""Tells the name servers which topics this broker has, for as long as it runs.

At start, whenever a topic changes, and every ``registerNameServerPeriod`` the whole table goes to every name server:
their list of brokers is only as good as the latest word of each. Source: BrokerOuterAPI; wire-protocol.md 2.4.5.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final
from zlib import crc32

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.registries.topics import Topics
from gantrymq.errors import GantryError, RequestRejected
from gantrymq.protocol.bodies.register import RegisterBrokerBody
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.nameserver import RegisterBroker, UnregisterBroker
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.network import split_address
from gantrymq.runtime.tasks import TaskGroupOwner

log = logging.getLogger("gantrymq.broker")

TICK_SECONDS: Final = 1.0
"""How often a lost connection to a name server is noticed; it has forgotten us by then."""
ANNOUNCE_WAIT_SECONDS: Final = 2.0
"""How long an answer waits until the name servers know about a new topic; clients wait 3 s or more for it."""
GOODBYE_TIMEOUT_MS: Final = 1_000
_CRC_MASK: Final = 0x7FFFFFFF


Announce = Callable[[Callable[[], None]], None]
"""Calls back once the name servers know the topics as they are now."""


class _Once:
    """A call that happens once, however often it is made."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call
        self.timer: Timer | None = None

    def __call__(self) -> None:
        call, self._call = self._call, None
        if self.timer is not None:
            self.timer.cancel()
        if call is not None:
            call()


class Registration:
    """Keeps this broker known. ``address``: what clients connect to."""

    def __init__(
        self, config: BrokerConfig, topics: Topics, client: RemotingClient, clock: Clock, address: str
    ) -> None:
        self._config = config
        self._topics = topics
        self._client = client
        self._clock = clock
        self._address = address
        host, port = split_address(address)
        self._ha_address = f"{host}:{port + 1}"
        self._tasks = TaskGroupOwner("registration")
        self._wake = asyncio.Event()
        self._pending = True
        self._waiting: list[Callable[[], None]] = []
        self._failing: set[str] = set()
        self._round_ended = asyncio.Event()

    async def start(self) -> None:
        """Register; returns once every name server has answered, or cannot be reached (see ``unregistered``).

        A slow name server is waited for, ``registerBrokerTimeoutMills`` at most: who is told that this broker is ready
        will look for its route. The broker serves meanwhile.
        """
        if not self._config.name_servers:
            log.warning("no name server is configured (namesrvAddr); only clients that know %s find it", self._address)
            return
        self._topics.changed.append(lambda _: self._announce())
        self._tasks.start("announce", self._run())
        await self._round_ended.wait()

    @property
    def unregistered(self) -> list[str]:
        """The name servers that do not know this broker now."""
        return sorted(self._failing)

    async def close(self) -> None:
        """Say goodbye to the name servers that can be reached."""
        await self._tasks.stop()
        header = UnregisterBroker(
            broker_name=self._config.broker_name, broker_addr=self._address,
            cluster_name=self._config.broker_cluster_name, broker_id=self._config.broker_id,
        )  # fmt: skip
        for name_server in self._config.name_servers:
            if self._client.ready(name_server) is not None:
                try:
                    await self._client.call(
                        name_server, RequestCode.UNREGISTER_BROKER, header, timeout_ms=GOODBYE_TIMEOUT_MS
                    )
                except GantryError as error:
                    log.warning("could not say goodbye to name server %s: %s", name_server, error)

    def when_announced(self, done: Callable[[], None]) -> None:
        """Call ``done`` once the name servers know the topics as they are now, or could not be told within
        ANNOUNCE_WAIT_SECONDS.
        """
        if not self._config.name_servers:
            done()
            return
        waiting = _Once(done)
        self._waiting.append(waiting)
        waiting.timer = self._clock.call_later(ANNOUNCE_WAIT_SECONDS, waiting)
        self._announce()

    def _announce(self) -> None:
        self._pending = True
        self._wake.set()

    async def _run(self) -> None:
        next_round = 0.0
        while True:
            now = self._clock.monotonic()
            lost = any(self._client.ready(name_server) is None for name_server in self._config.name_servers)
            if self._pending or lost or now >= next_round:
                self._pending = False
                waiting, self._waiting = self._waiting, []
                await asyncio.gather(*(self._register(name_server) for name_server in self._config.name_servers))
                next_round = now + self._config.register_period_seconds
                for done in waiting:
                    done()
                self._round_ended.set()
            timer = self._clock.call_later(TICK_SECONDS, self._wake.set)
            await self._wake.wait()
            self._wake.clear()
            timer.cancel()

    async def _register(self, name_server: str) -> None:
        body = RegisterBrokerBody(topic_config_serialize_wrapper=self._topics.table()).encode()
        header = RegisterBroker(
            broker_name=self._config.broker_name,
            broker_addr=self._address,
            cluster_name=self._config.broker_cluster_name,
            ha_server_addr=self._ha_address,
            broker_id=self._config.broker_id,
            compressed=False,
            body_crc32=crc32(body) & _CRC_MASK,
            enable_acting_master=False,
        )
        try:
            answer = await self._client.call(
                name_server, RequestCode.REGISTER_BROKER, header, body,
                timeout_ms=self._config.register_broker_timeout_mills,
            )  # fmt: skip
            if answer.code != ResponseCode.SUCCESS:
                raise RequestRejected(answer.code, answer.remark, request="REGISTER_BROKER", address=name_server)
        except GantryError as error:
            if name_server not in self._failing:
                self._failing.add(name_server)
                log.warning(
                    "not registered with name server %s, clients cannot find this broker there: %s. "
                    "Is a name server running at that address? Trying again every second", name_server, error,
                )  # fmt: skip
            return
        if name_server in self._failing:
            self._failing.discard(name_server)
            log.info("registered with name server %s again", name_server)
