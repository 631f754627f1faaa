"""Tells the name servers which topics this broker has, as long as it runs.

At the start, whenever a topic changes, and every ``registerNameServerPeriod`` the whole table goes to every name
server, because a name server knows only what brokers told it last. Source: BrokerOuterAPI;
docs/protocol.md#name-server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final
from zlib import crc32

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.registries.topics import Topics
from gantrymq.errors import GantryError, RemoteProtocolError, RequestRejected, TimedOut
from gantrymq.protocol.bodies.register import RegisterBrokerBody
from gantrymq.protocol.bodies.route import ClusterInfo
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.nameserver import RegisterBroker, RegisterBrokerAnswer, UnregisterBroker
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.addresses import address_of, split_address
from gantrymq.runtime.clock import Clock, Timer, time_limit
from gantrymq.runtime.tasks import TaskGroupOwner

log = logging.getLogger("gantrymq.broker")

TICK_SECONDS: Final = 1.0
"""How often a lost connection to a name server is noticed; it has forgotten us by then."""
ANNOUNCE_WAIT_SECONDS: Final = 2.0
"""How long an answer waits until the name servers know about a new topic; clients wait 3 s or more for it."""
START_GRACE_SECONDS: Final = 1.0
"""How much longer than for the first name server the start waits for the others. A silent one must not keep a broker
from being ready."""
GOODBYE_TIMEOUT_MS: Final = 1_000
REFUSED_RETRY_SECONDS: Final = 2.0
"""Pause between two tries at a name server that refuses this broker: the other one may be about to stop."""
REFUSED_LOG_SECONDS: Final = 60.0
"""Between two lines about the same refusal."""
_CRC_MASK: Final = 0x7FFFFFFF


class _Waiting:
    """Somebody who waits until the name servers know the current topics. ``done`` is called once."""

    def __init__(self, done: Callable[[], None], name_servers: Iterable[str]) -> None:
        self._done: Callable[[], None] | None = done
        self._untold = set(name_servers)
        self.timer: Timer | None = None

    def told(self, name_server: str) -> None:
        """This name server knows, or cannot be reached."""
        self._untold.discard(name_server)
        if not self._untold:
            self.end()

    def end(self) -> None:
        done, self._done = self._done, None
        if self.timer is not None:
            self.timer.cancel()
        if done is not None:
            done()


class _Turn:
    """What one name server is to be told, and when. Each has a task of its own: a silent one delays no other."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.pending = True
        """Whether the topics changed since it was told."""
        self.waiting: list[_Waiting] = []
        self.next_round = self.next_retry = 0.0


class Registration:
    """Keeps this broker known. ``address``: what clients connect to."""

    def __init__(
        self, config: LiveConfig, topics: Topics, client: RemotingClient, clock: Clock, address: str, broker_id: int
    ) -> None:
        self._config = config
        self._topics = topics
        self._client = client
        self._clock = clock
        self._address = address
        self._broker_id = broker_id
        host, port = split_address(address)
        self._ha_address = address_of(host, config.replication.ha_listen_port or port + 1)
        self._tasks = TaskGroupOwner("registration")
        self._turns = {name_server: _Turn() for name_server in config.network.name_servers}
        self._failing: set[str] = set()
        self._refused: dict[str, str] = {}
        self._refused_logged: dict[str, float] = {}
        self._tried: set[str] = set()
        """The name servers that have answered once, or could not be reached."""
        self.primary = ("", "")
        """As the name servers know it: the address of the primary of this name, and that of its HA port."""
        self._first_tried = asyncio.Event()
        self._all_tried = asyncio.Event()

    async def start(self) -> None:
        """Register; returns once every name server has answered, or cannot be reached (see ``unregistered``).

        A slow name server is waited for, because who is told that this broker is ready will look for its route. It is
        waited for START_GRACE_SECONDS longer than for the first one, and ``registerBrokerTimeoutMills`` at most. The
        broker serves meanwhile.
        """
        if not self._turns:
            log.warning("no name server is configured (namesrvAddr); only clients that know %s find it", self._address)
            return
        self._topics.changed.append(lambda _: self._announce())
        for name_server, turn in self._turns.items():
            self._tasks.start(f"announce to {name_server}", self._run(name_server, turn))
        await self._first_tried.wait()
        try:
            async with time_limit(self._clock, START_GRACE_SECONDS):
                await self._all_tried.wait()
        except TimeoutError:
            for name_server in self._turns.keys() - self._tried:
                self._failed(name_server, f"it gave no answer for {START_GRACE_SECONDS:g} s")

    @property
    def unregistered(self) -> list[str]:
        """The name servers that could not be told of this broker."""
        return sorted(self._failing - self._refused.keys())

    @property
    def refused(self) -> dict[str, str]:
        """The name servers that refuse this broker, and why: as a rule another one has its name and id."""
        return dict(self._refused)

    async def close(self) -> None:
        """Say goodbye to the name servers that can be reached and know this broker by its name."""
        await self._tasks.stop()
        header = UnregisterBroker(
            broker_name=self._config.identity.broker_name, broker_addr=self._address,
            cluster_name=self._config.identity.broker_cluster_name, broker_id=self._broker_id,
        )  # fmt: skip
        for name_server in self._config.network.name_servers:
            if self._client.ready(name_server) is None or name_server in self._refused:
                continue
            try:
                # Apache's 4.x name servers take out whoever has our name and id: not if that is another one.
                if await self._namesake(name_server, GOODBYE_TIMEOUT_MS) is None:
                    await self._client.call(
                        name_server, RequestCode.UNREGISTER_BROKER, header, timeout_ms=GOODBYE_TIMEOUT_MS
                    )
            except GantryError as error:
                log.warning("could not unregister from name server %s: %s", name_server, error)

    def when_announced(self, done: Callable[[], None]) -> None:
        """Call ``done`` once the name servers know the topics as they are now, or could not be told within
        ANNOUNCE_WAIT_SECONDS. Name servers that did not answer before are waited for only when there are no others.
        """
        if not self._turns:
            done()
            return
        asked = (self._turns.keys() - self._failing) or self._turns.keys()
        waiting = _Waiting(done, asked)
        for name_server in asked:
            self._turns[name_server].waiting.append(waiting)
        waiting.timer = self._clock.call_later(ANNOUNCE_WAIT_SECONDS, waiting.end)
        self._announce()

    def look_for_primary(self) -> None:
        """Ask the name servers soon where the primary is: by registering again."""
        self._announce()

    def _announce(self) -> None:
        for turn in self._turns.values():
            turn.pending = True
            turn.wake.set()

    async def _run(self, name_server: str, turn: _Turn) -> None:
        while True:
            look = self._look(name_server, turn)
            if look is not None:
                turn.pending, waiting, turn.waiting = False, turn.waiting, []
                await self._register(name_server, look=look)
                self._was_tried(name_server)
                for one in waiting:
                    one.told(name_server)
            timer = self._clock.call_later(TICK_SECONDS, turn.wake.set)
            await turn.wake.wait()
            turn.wake.clear()
            timer.cancel()

    def _look(self, name_server: str, turn: _Turn) -> bool | None:
        """Whether to look first who has our name there; None: there is nothing to tell it now."""
        now = self._clock.monotonic()
        round_due, retry_due = now >= turn.next_round, now >= turn.next_retry
        if round_due:
            turn.next_round = now + self._config.network.register_period_seconds
        if retry_due:
            turn.next_retry = now + REFUSED_RETRY_SECONDS
        look = round_due or self._client.ready(name_server) is None
        return look if look or turn.pending or (retry_due and name_server in self._refused) else None

    def _was_tried(self, name_server: str) -> None:
        self._tried.add(name_server)
        self._first_tried.set()
        if len(self._tried) == len(self._turns):
            self._all_tried.set()

    async def _register(self, name_server: str, *, look: bool) -> None:
        timeout_ms = self._config.network.register_broker_timeout_mills
        try:
            namesake = await self._namesake(name_server, timeout_ms) if look else None
            await self._register_at(name_server, timeout_ms)
        except RequestRejected as error:
            self._was_refused(name_server, error.remark or str(error))
            return
        except GantryError as error:
            if isinstance(error, TimedOut):
                # Its machine may be gone without a word, and its name may belong to another one by now.
                self._client.disconnect(name_server)
            self._failed(name_server, str(error))
            return
        self._refused.pop(name_server, None)
        self._refused_logged.pop(name_server, None)
        if name_server in self._failing:
            self._failing.discard(name_server)
            log.info("registered with name server %s again", name_server)
        identity = self._config.identity
        if namesake is not None:
            log.error(
                "name server %s had %s as broker %s with id %d until now, and has this one at %s since. If a broker is "
                "alive there, the two replace each other: give one of them another brokerName or brokerId",
                name_server, namesake, identity.broker_name, self._broker_id, self._address,
            )  # fmt: skip

    def _failed(self, name_server: str, reason: str) -> None:
        self._refused.pop(name_server, None)
        if name_server not in self._failing:
            self._failing.add(name_server)
            log.warning(
                "not registered with name server %s, clients cannot find this broker there: %s. "
                "Is a name server running at that address? Trying again every second", name_server, reason,
            )  # fmt: skip

    def _was_refused(self, name_server: str, reason: str) -> None:
        now = self._clock.monotonic()
        self._failing.add(name_server)
        self._refused[name_server] = reason
        if now - self._refused_logged.get(name_server, -REFUSED_LOG_SECONDS) >= REFUSED_LOG_SECONDS:
            self._refused_logged[name_server] = now
            log.error(
                "name server %s refuses this broker at %s, clients cannot find it there: %s. Trying again every %g s",
                name_server, self._address, reason, REFUSED_RETRY_SECONDS,
            )  # fmt: skip

    async def _namesake(self, name_server: str, timeout_ms: int) -> str | None:
        """The other address that a name server has for our name and id; None: it has ours, none, or does not say.

        Apache's name servers let the last broker that registers take the place of the one before, without a word.
        """
        answer = await self._client.call(name_server, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_ms=timeout_ms)
        if answer.code != ResponseCode.SUCCESS:
            return None
        try:
            known = ClusterInfo.decode(answer.body).broker_addr_table.get(self._config.identity.broker_name)
        except RemoteProtocolError:
            return None
        address = known.broker_addrs.get(self._broker_id) if known is not None else None
        return address if address != self._address else None

    async def _register_at(self, name_server: str, timeout_ms: int) -> None:
        body = RegisterBrokerBody.encode_with(self._topics.encoded_table())
        header = RegisterBroker(
            broker_name=self._config.identity.broker_name,
            broker_addr=self._address,
            cluster_name=self._config.identity.broker_cluster_name,
            ha_server_addr=self._ha_address,
            broker_id=self._broker_id,
            compressed=False,
            body_crc32=crc32(body) & _CRC_MASK,
            enable_acting_master=False,
        )
        answer = await self._client.call(
            name_server, RequestCode.REGISTER_BROKER, header, body, timeout_ms=timeout_ms
        )  # fmt: skip
        if answer.code != ResponseCode.SUCCESS:
            raise RequestRejected(answer.code, answer.remark, request="REGISTER_BROKER", address=name_server)
        told = answer.header(RegisterBrokerAnswer)
        if told.master_addr and told.master_addr != self._address:
            self.primary = (told.master_addr, told.ha_server_addr or "")
