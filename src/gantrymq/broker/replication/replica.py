"""A replica's connection to its primary: it asks for the log, checks it, appends it, and reports how far it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from gantrymq.broker.replication.following import Diverged, Following, State
from gantrymq.broker.replication.frames import FrameReader, encode_report
from gantrymq.broker.replication.port import HEARTBEAT_S, SILENCE_S
from gantrymq.errors import GantryError, StoreError
from gantrymq.runtime.addresses import split_address
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.network import Link, Network
from gantrymq.runtime.tasks import TaskGroupOwner

log = logging.getLogger("gantrymq.broker.replication")

CONNECT_S: Final = 5.0
AGAIN_S: Final = 1.0
"""Between two attempts to follow."""
DIVERGED_AGAIN_S: Final = 30.0
"""When the logs differ: a person has to act, and may have done so."""


class Target(Protocol):
    """What is written of the store. Positions are log offsets in bytes."""

    @property
    def appended(self) -> int: ...

    @property
    def stored(self) -> int:
        """Everything before it is safe on this disk."""

    @property
    def last_record(self) -> int:
        """Where the newest record begins; without any, where the log begins."""

    def read_raw(self, position: int, size: int) -> bytes: ...

    def append_raw(self, place: int, data: bytes) -> None: ...

    def forget_rest(self) -> None: ...

    async def flush_everything(self) -> None: ...


class Follower:
    """Follows the primary whose address ``primary`` gives; empty: it is not known yet."""

    def __init__(self, network: Network, clock: Clock, target: Target, primary: Callable[[], str]) -> None:
        self._network = network
        self._clock = clock
        self._target = target
        self._primary = primary
        self._tasks = TaskGroupOwner("replica")
        self._connection: _Connection | None = None
        self._said = ""
        self.state = State.AWAY
        self.problem = ""
        """Why it does not follow, for people; empty: it does."""

    def start(self) -> None:
        self._tasks.start("following", self._run())

    async def stop(self) -> None:
        await self._tasks.stop()
        if self._connection is not None:
            self._connection.end("the replica stops")

    def grown(self, _position: int) -> None:
        """More of the log is safe on this disk."""
        if self._connection is not None:
            self._connection.report()

    async def _run(self) -> None:
        while True:
            pause = AGAIN_S
            address = self._primary()
            try:
                if address:
                    await self._follow(address)
                else:
                    self._note(
                        "the address of the primary is not known: set haMasterAddress, or namesrvAddr to a name server "
                        "that knows a primary of this brokerName"
                    )
            except Diverged as error:
                self.state, pause = State.DIVERGED, DIVERGED_AGAIN_S
                self._note(f"{error}. {error.what_to_do}")
            except (GantryError, OSError) as error:
                self.state = State.AWAY
                self._note(f"cannot follow {address}: {error}")
            await self._clock.sleep(pause)

    def _note(self, problem: str) -> None:
        self.problem = problem
        if problem != self._said:
            log.error("%s", problem)
            self._said = problem

    async def _follow(self, address: str) -> None:
        """Until the connection ends. Raises the reason."""
        target = self._target
        target.forget_rest()
        await target.flush_everything()
        connection = _Connection(self, self._clock, target, Following(target.last_record, target.appended))
        host, port = split_address(address)
        self._connection = connection
        try:
            await self._network.connect(host, port, connection, CONNECT_S)
            await connection.ended
        finally:
            self._connection = None
            connection.end("")

    def follows(self, state: State, address: str) -> None:
        """The connection works."""
        self.state = state
        if state is State.FOLLOWING:
            if self.problem or not self._said:
                log.info("following the primary at %s from log offset %d on", address, self._target.appended)
            self.problem, self._said = "", "follows"


class _Connection:
    """One connection to the primary."""

    def __init__(self, owner: Follower, clock: Clock, target: Target, following: Following) -> None:
        self._owner = owner
        self._clock = clock
        self._target = target
        self._following = following
        self._reader = FrameReader()
        self._link: Link | None = None
        self._timer: Timer | None = None
        self._heard = self._said = clock.monotonic()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connected(self, link: Link) -> None:
        self._link = link
        self._heard = self._clock.monotonic()
        link.write(encode_report(self._following.begin))
        self._timer = self._clock.call_later(HEARTBEAT_S / 2, self._beat)

    def received(self, data: bytes) -> None:
        if self._link is None:
            return
        self._heard = self._clock.monotonic()
        target, following = self._target, self._following
        try:
            for frame in self._reader.feed(data):
                known = following.own_end - frame.place if following.state is State.COMPARING else 0
                own = target.read_raw(frame.place, min(len(frame.data), known)) if known > 0 else b""
                new = following.takes(frame, own)
                if new:
                    target.append_raw(frame.place + len(frame.data) - len(new), new)
        except (GantryError, OSError) as error:
            self._fail(error)
            return
        self._owner.follows(following.state, self._link.peer)

    def report(self) -> None:
        """Say how far this log is safe. Not before it is known to be the primary's."""
        if self._link is not None and self._following.state is State.FOLLOWING:
            self._said = self._clock.monotonic()
            self._link.write(encode_report(self._target.stored))

    def _beat(self) -> None:
        now = self._clock.monotonic()
        self._timer = self._clock.call_later(HEARTBEAT_S / 2, self._beat)
        if now - self._heard > SILENCE_S:
            self._fail(StoreError(f"the primary has said nothing for {SILENCE_S:g} s"))
        elif self._following.state is State.COMPARING and self._link is not None:
            self._owner.problem = (
                f"the primary has not sent the record at log offset {self._following.begin}, the last one here: its "
                "log may end before it"
            )
            self._link.write(encode_report(0))  # a sign of life that confirms nothing
        elif now - self._said >= HEARTBEAT_S / 2:
            self.report()

    def lost(self, reason: str) -> None:
        self._link = None
        self.end(f"the primary has ended the connection: {reason}")

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def _fail(self, error: BaseException) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)
        self._close()

    def end(self, reason: str) -> None:
        """Harmless when it has ended."""
        if not self.ended.done():
            self.ended.set_exception(StoreError(reason))
        if self.ended.done() and not self.ended.cancelled():
            self.ended.exception()  # so that nobody complains that it was not read
        self._close()

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        link, self._link = self._link, None
        if link is not None:
            link.abort()
