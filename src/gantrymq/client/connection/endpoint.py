"""The connection of one client to a cluster: its channels, its identity, the routes, and its membership in groups."""

from __future__ import annotations

import asyncio
import logging
import os
from asyncio import _get_running_loop
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final

from gantrymq.client.config import ClientConfig
from gantrymq.client.connection.name_servers import NameServers
from gantrymq.client.connection.outside import Outside as Outside
from gantrymq.client.connection.routes import Routes
from gantrymq.client.connection.runtimes import check_loop, check_threads, running_loop
from gantrymq.client.connection.secure import account_of, network_of
from gantrymq.errors import Closed, ConfigError, GantryError, RequestRejected, TimedOut, Unreachable, UsedAfterFork
from gantrymq.message.arguments import shown
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header, encode_request, encode_response
from gantrymq.protocol.message_ids import UniqueIds
from gantrymq.remoting.channel import ClientChannel
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.addresses import LOOPBACK, host_of, numeric
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.life import Life
from gantrymq.runtime.tasks import SharedWork, TaskGroupOwner

log = logging.getLogger("gantrymq.client")

_process = os.getpid()
"""The id of this process. It is cached, because every send needs it and asking for it is a system call."""


def _in_child() -> None:
    global _process
    _process = os.getpid()


os.register_at_fork(after_in_child=_in_child)

RETRY_PAUSE_S: Final = 0.1
"""The pause between two attempts of a request that could not be sent."""


class Endpoint:
    """The connection of one client. It belongs to the event loop and the process in which it was started.

    ``pushes``: called with each request that a broker sends. ``greet``: called with every new connection to a broker,
    before anything else is sent on it.
    """

    def __init__(
        self,
        owner: str,
        config: ClientConfig,
        outside: object,
        *,
        pushes: Callable[[ClientChannel, Command], None] | None = None,
        greet: Callable[[ClientChannel], None] | None = None,
    ) -> None:
        if not isinstance(outside, Outside):
            raise ConfigError(
                f"outside must be Outside (or None for the real network, clock and disk), not {shown(outside)}"
            )
        self.owner = owner
        self.life = Life()
        """For weak references to this object, of which a compiled one takes none."""
        self.config = config
        self.listeners: list[Callable[[], int]] = []
        """Functions that count the calls of the user's listener which are running or wait for a thread."""
        self._outside = outside
        self.clock = outside.clock
        self.rng = outside.rng
        self.remoting = RemotingClient(
            network_of(config, outside), outside.clock, outside.rng, requests=pushes, lost=self._lost,
            account=account_of(config),
        )  # fmt: skip
        self.name_servers = NameServers(self.remoting, outside.clock, config.name_servers, config.call_timeout_ms)
        self.routes = Routes(self.name_servers)
        self.tasks = TaskGroupOwner(owner)
        self.client_id = ""
        self.when_lost: Callable[[str], None] | None = None
        """Called with the address of the broker when a greeted connection is lost."""
        self._greet = greet
        self._greeted: dict[str, ClientChannel] = {}
        self._languages: dict[str, str | None] = {}
        self._token = outside.rng.token(4).hex()
        self._pid = os.getpid()
        self._ids: UniqueIds | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop on which the client was started."""
        self._running = False
        self._stopped = False
        self._closed = False
        self._closing: SharedWork[str, None] = SharedWork()

    def start(self) -> None:
        """Raises Closed when the client was closed before: a client can be started only once; WrongRuntime where it
        cannot work."""
        if self._stopped:
            raise Closed(f"this {self.owner} is closed; create a new one")
        check_threads(self.owner)
        self._loop = running_loop(self.owner)
        self._running = True
        self._outside.started(self)

    def check_usable(self) -> None:
        """Raise Closed unless started and open, UsedAfterFork in a forked child, WrongRuntime on another loop."""
        if not self._running:
            raise Closed(
                f"this {self.owner} is closed; create a new one"
                if self._stopped
                else f"this {self.owner} is not started; call start() or use it in a `with` block"
            )
        if self._pid != _process:
            raise UsedAfterFork(f"this {self.owner} belongs to the parent process; create a new one after the fork")
        if _get_running_loop() is not self._loop:
            check_loop(self.owner, self._loop)

    async def close(self, leave: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Refuse new calls, await ``leave()``, end the tasks and close the connections.

        This work is done once, in a task of its own. A second caller waits for the same task, and the task continues
        when a caller is cancelled. So the client is never left half closed, and ``close`` may be called from inside a
        task that it ends.
        """
        if self._loop is not None and self._loop.is_closed():
            # ``asyncio.run`` has ended before the client was closed, and its connections with it.
            self.stop_accepting()
            self._closed = True
            return
        if self.started and not self._closed and self._pid == _process:
            check_loop(self.owner, self._loop)
        self.stop_accepting()
        if not self._closed:
            await self._closing.join("", partial(self._close, leave))

    async def _close(self, leave: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
        failed: BaseException | None = None
        if leave is not None:
            try:
                await leave()
            except BaseException as error:  # noqa: BLE001 - it is raised below: compiled code must not wait in here
                failed = error
        try:
            await self.tasks.stop()
            await self.remoting.close()
        finally:
            self._closed = True
        if failed is not None:
            raise failed

    def stop_accepting(self) -> None:
        """From now on calls raise Closed; running calls continue."""
        self._running = False
        self._stopped = True

    @property
    def started(self) -> bool:
        """Whether the client was started at some time, so that there is something to close."""
        return self._running or self._stopped

    @property
    def running(self) -> bool:
        return self._running

    # The identity is known from the first connection on, because it contains the local address of that connection.

    def next_unique_key(self, now_ms: int | None = None) -> str:
        """A new unique message id. ``now_ms``: the wall time, if the caller has just read it."""
        ids = self._ids
        return ids.next(now_ms) if ids is not None else self._first_unique_key()

    def _first_unique_key(self) -> str:
        local = next((ready.local for ready in map(self.remoting.ready, self._known()) if ready is not None), "")
        self._ids = UniqueIds(self.rng, self.clock, _packed(local), self._pid)
        return self._ids.next()

    def _known(self) -> list[str]:
        return self.remoting.connected_addresses()

    def _name(self, channel: ClientChannel) -> None:
        host = host_of(channel.local) if channel.local else LOOPBACK
        self.client_id = f"{host}@{self.config.instance_name or f'{self._pid}#{self._token}'}"

    # Calls to brokers.

    def ready(self, address: str) -> ClientChannel | None:
        """The open and greeted channel to a broker, when there is one."""
        channel = self._greeted.get(address)
        return channel if channel is not None and channel.alive else None

    def has_broker(self) -> bool:
        """Whether an open and greeted channel to any broker is there. From any thread."""
        return any(channel.alive for channel in list(self._greeted.values()))

    async def channel(self, address: str, timeout_ms: int) -> ClientChannel:
        """The channel to a broker; a new one is greeted first. Raises Unreachable."""
        channel = self.ready(address)
        if channel is not None:
            return channel
        channel = await self.remoting.channel(address, timeout_ms)
        if self._greeted.get(address) is not channel:
            self._greeted[address] = channel
            if not self.client_id:
                self._name(channel)
            if self._greet is not None:
                self._greet(channel)
        return channel

    def _lost(self, channel: ClientChannel) -> None:
        if self._running and self.when_lost is not None and self._greeted.get(channel.address) is channel:
            self.when_lost(channel.address)

    def heard(self, address: str, answer: Command) -> None:
        """Record which kind of broker answers at an address."""
        self._languages[address] = answer.language

    def speaks_java(self, address: str) -> bool:
        """Whether an Apache broker answered a heartbeat at this address. Some answers of Apache's brokers guarantee
        less than those of a GantryMQ broker."""
        return self._languages.get(address) == "JAVA"

    async def call(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int | None = None,
        remark: str | None = None,
    ) -> Command:
        """Send one request to one broker, and return its answer, whatever its code. Raises Unreachable or TimedOut."""
        limit_ms = self.config.call_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self.clock.monotonic() + limit_ms / 1000
        channel = self.ready(address) or await self.channel(address, limit_ms)
        remaining_ms = int((deadline - self.clock.monotonic()) * 1000)
        if remaining_ms <= 0:
            raise TimedOut(f"connecting to {address}", limit_ms)
        opaque = channel.next_opaque()
        return await channel.request(opaque, encode_request(code, opaque, header, body, remark=remark), remaining_ms)

    async def call_oneway(self, address: str, code: RequestCode, header: Header, body: bytes = b"") -> None:
        """Send without waiting for an answer. Raises Unreachable when there is no connection."""
        channel = self.ready(address) or await self.channel(address, self.config.call_timeout_ms)
        channel.send(encode_request(code, channel.next_opaque(), header, body, one_way=True))

    async def ask(
        self,
        find_address: Callable[[], str | None],
        code: RequestCode,
        header: Header,
        *,
        what: str,
        topic: str | None = None,
        timeout_ms: int | None = None,
        accept: Iterable[int] = (ResponseCode.SUCCESS,),
        again: bool = True,
    ) -> Command:
        """Send a request that may be repeated, until its time is over.

        Before each further attempt the route of ``topic`` is refreshed and ``find_address`` is called again. Raises
        RequestRejected for codes outside of ``accept``, and Unreachable or TimedOut when the time is over.
        """
        limit_ms = self.config.call_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self.clock.monotonic() + limit_ms / 1000
        error: GantryError = Unreachable(what, "no broker of that name is known to the name servers")
        while (remaining_ms := int((deadline - self.clock.monotonic()) * 1000)) > 0:
            address = find_address()
            if address is not None:
                try:
                    answer = await self.call(address, code, header, timeout_ms=remaining_ms)
                except (Unreachable, TimedOut) as failure:
                    error = failure
                else:
                    if answer.code in accept:
                        return answer
                    raise RequestRejected(answer.code, answer.remark, request=what, address=address)
            if not again:
                break
            await self.clock.sleep(min(RETRY_PAUSE_S, remaining_ms / 1000))
            self.check_usable()
            if topic is not None:
                await self.routes.refresh([topic])
        raise error

    async def drain(self, idle: Callable[[], bool], timeout_ms: int) -> bool:
        """Wait until ``idle``; False when that took longer than ``timeout_ms``."""
        deadline = self.clock.monotonic() + timeout_ms / 1000
        while not idle():
            if self.clock.monotonic() >= deadline:
                return False
            await self.clock.sleep(0.005)
        return True


def decline(channel: ClientChannel, command: Command) -> None:
    """Refuse a request of a broker that this client does not understand, so that the broker does not wait for it."""
    if not command.is_response and not command.is_one_way:
        remark = f" request type {command.code} not supported"
        channel.send(encode_response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark))


def ignore_outcome(answer: asyncio.Future[Command]) -> None:
    """For answers that no caller waits for: an error is normal when a broker goes away."""
    if not answer.cancelled() and (error := answer.exception()) is not None:
        log.debug("unanswered: %s", error)


async def every(clock: Clock, interval_ms: int, work: Callable[[], Awaitable[None]], what: str) -> None:
    """Run ``work`` at intervals for ever. An error is logged, and ``work`` runs again after the next interval."""
    while True:
        await clock.sleep(interval_ms / 1000)
        try:
            await work()
        except GantryError as error:
            log.warning("%s: %s", what, error)


def _packed(local: str) -> bytes:
    address = numeric(host_of(local))
    return b"\x7f\x00\x00\x01" if address is None else address.packed
