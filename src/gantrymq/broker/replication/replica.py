"""A replica's connection to its primary: it asks for the log, checks it, appends it, and reports how far it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from gantrymq.broker.replication.authentication import ReplicaAuthentication
from gantrymq.broker.replication.authentication import State as Entry
from gantrymq.broker.replication.auto_switch import Welcome
from gantrymq.broker.replication.dialects import DEFAULT_PACE, DefaultReplica, Pace, ReplicaSide
from gantrymq.broker.replication.following import Differs, Diverged, Following, NotThere, State, earlier
from gantrymq.errors import GantryError, StoreError, Unreachable
from gantrymq.message.replication import FollowState
from gantrymq.runtime.addresses import split_address
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.network import Link, Network
from gantrymq.runtime.tasks import TaskGroupOwner

log = logging.getLogger("gantrymq.broker.replication")

CONNECT_S: Final = 5.0
ANSWER_S: Final = 1.0
"""A primary that has not answered the question who this is after so long is one of Apache's. If it is one of ours that
was busy, its answer ends the connection, and the next one is tried."""
QUIET_BEATS: Final = 2
"""A replica that has heard nothing for so many beats says nothing either, but what it has stored: its primary has to
learn that it is not heard, also when only one direction of the line is cut."""
DIVERGED_AGAIN_S: Final = 30.0
"""When the logs differ: a person has to act, and may have done so."""

NOT_KNOWN: Final = (
    "the address of the primary is not known: set haMasterAddress, or namesrvAddr to a name server that knows a primary"
    " of this brokerName"
)


NOT_ANSWERED: Final = (
    "the primary has ended the connection before it said anything. Its log says why; if it is that the connection does "
    "not use TLS, set tls.enable=true in the TLS settings of this broker"
)


class Target(Protocol):
    """What is written of the store. Positions are log offsets in bytes."""

    @property
    def appended(self) -> int: ...

    @property
    def stored(self) -> int:
        """Everything before it is safe on this disk."""

    @property
    def min_log_offset(self) -> int: ...

    def record_before(self, position: int) -> tuple[int, int]:
        """Begin and end of the newest record that begins before ``position``; twice where the log begins when there is
        none."""

    def read_raw(self, position: int, size: int) -> bytes: ...

    def append_raw(self, place: int, data: bytes) -> None: ...

    def forget_rest(self) -> None: ...

    async def flush_everything(self) -> None: ...

    async def truncate(self, position: int) -> None: ...


class Joining(Protocol):
    """What becomes of records that are here, and that the primary does not have."""

    def may_cut(self) -> bool:
        """Whether they may be cut from the log."""

    def keep(self, position: int) -> str:
        """Write what lies behind ``position`` elsewhere, durably. Returns words that say where. Raises StoreError or
        OSError; then it must not be cut."""

    def joined(self) -> None:
        """From now on the log is the primary's."""


class Follower:
    """Follows the primary whose address ``primary`` gives; empty: it is not known yet."""

    def __init__(
        self, network: Network, clock: Clock, target: Target, primary: Callable[[], str], joining: Joining,
        look: Callable[[], None], talk: Callable[[], ReplicaSide] = DefaultReplica, pace: Pace = DEFAULT_PACE,
        nobody: str = NOT_KNOWN, authenticate: Callable[[], ReplicaAuthentication | None] = lambda: None,
    ) -> None:  # fmt: skip
        """``look``: asked to find out where the primary is, when it is not where it was. ``talk``: makes what a
        connection talks. ``nobody``: what to say while there is no primary. ``authenticate``: makes what a connection
        says first; None: it says nothing."""
        self._network = network
        self._clock = clock
        self._target = target
        self._primary = primary
        self._joining = joining
        self._look = look
        self._talk = talk
        self._nobody = nobody
        self._authenticate = authenticate
        self.pace: Final = pace
        self._followed = ""
        """The address whose log this one continued last."""
        self.shut = ""
        """An address that was followed, and at which nobody listens any more; empty: there is none."""
        self._before: int | None = None
        """The record that is compared first begins before this log offset; None: it is the last one."""
        self._tasks = TaskGroupOwner("replica")
        self._connection: _Connection | None = None
        self._said = ""
        self.state = State.AWAY
        self.problem = ""
        """Why it does not follow, for people; empty: it does."""
        self.heard_ms = self.reported_ms = 0
        """When the primary, and this replica, said something last: ms since 1970."""

    def following(self) -> FollowState:
        """For those who ask."""
        return FollowState(
            self._primary(), self.state.value, self.problem, self.state is State.FOLLOWING, self.heard_ms,
            self.reported_ms,
        )  # fmt: skip

    def start(self) -> None:
        self._tasks.start("following", self._run())

    async def stop(self) -> None:
        await self._tasks.stop()
        if self._connection is not None:
            self._connection.end("the replica stops")

    def hears(self, within_s: float) -> bool:
        """Whether the primary has said something within so many seconds, over a connection that is there."""
        connection = self._connection
        return connection is not None and connection.heard_within(within_s)

    def leave(self, reason: str) -> None:
        """End the connection that there is; what has come over it is taken, and nothing more."""
        if self._connection is not None:
            self._connection.end(reason)
        self.shut = ""

    def grown(self, _position: int) -> None:
        """More of the log is safe on this disk."""
        if self._connection is not None:
            self._connection.report()

    async def _run(self) -> None:
        while True:
            address = self._primary()
            if address:
                pause = await self._attempt(address)
            else:
                pause = self.pace.again
                self._note(self._nobody)
            if self.state is State.AWAY:
                self._look()
            await self._clock.sleep(pause)

    async def _attempt(self, address: str) -> float:
        """Follow until the connection ends. Returns how many seconds later to try again."""
        failed: Exception
        try:
            await self._follow(address)
            return self.pace.again
        except Exception as error:  # noqa: BLE001 - a replica never gives up: its messages have no second copy then
            failed = error
        if isinstance(failed, Unreachable) and isinstance(failed.__cause__, ConnectionRefusedError):
            self.shut = address if address == self._followed else ""
        if isinstance(failed, Differs):  # behind the block: nothing waits in a handler (docs/compiled.md)
            try:
                await self._part(failed)
                return 0.0
            except (GantryError, OSError) as error:
                failed = error
        if isinstance(failed, NotThere):
            return self._look_earlier(failed)
        if isinstance(failed, Diverged):
            self.state = State.DIVERGED
            self._note(f"{failed}. {failed.what_to_do}")
            return DIVERGED_AGAIN_S
        self.state = State.AWAY
        self._note(f"cannot follow {address}: {failed}")
        if not isinstance(failed, GantryError | OSError):
            log.error("this was not expected", exc_info=failed)
        return self.pace.again

    def _look_earlier(self, failed: NotThere) -> float:
        target = self._target
        begin = target.record_before(target.appended if self._before is None else self._before)[0]
        before = earlier(begin, target.appended, target.min_log_offset)
        self._before = None if before is None else before + 1
        if before is not None:
            return 0.0
        self.state = State.DIVERGED
        self._note(
            "no record of this log is in the primary's: they were written by two brokers, and nothing is taken. "
            f"{Diverged.what_to_do}"
        )
        return DIVERGED_AGAIN_S

    async def _part(self, differs: Differs) -> None:
        """Cut what the primary does not have. Raises Diverged when a person has to decide that."""
        target = self._target
        begin, end = target.record_before(differs.place + 1)
        common = end if end <= differs.place else begin
        surplus = f"{target.appended - common} bytes from log offset {common} on are here, and not at the primary"
        if not self._joining.may_cut():
            raise Diverged(
                f"{surplus}, although this replica got them from a primary. That one has lost them, perhaps in a power "
                "cut, and this broker should be the primary. To give them up, set haCutSurplus=true"
            )
        where = self._joining.keep(common)
        await target.truncate(common)
        self._before = None
        log.error("%s; they were cut, and are kept: %s", surplus, where)

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
        talk = self._talk()
        begin, end = target.record_before(target.appended if self._before is None else self._before)
        if talk.compares_all:
            begin = end = target.min_log_offset
        following = Following(begin, end, target.appended)
        if following.state is State.FOLLOWING:  # an empty log
            self._joining.joined()
        connection = _Connection(self, self._clock, target, following, talk, self._authenticate())
        host, port = split_address(address)
        self._connection = connection
        try:
            await self._network.connect(host, port, connection, CONNECT_S)
            await connection.ended
        finally:
            self._connection = None
            connection.end("")

    def joined(self) -> None:
        """The two logs are one."""
        self._joining.joined()

    def follows(self, state: State, address: str) -> None:
        """The connection works."""
        self.state = state
        self.shut = ""
        if state is State.FOLLOWING:
            self._before = None
            self._followed = self._primary()
            if self.problem or not self._said:
                log.info("following the primary at %s from log offset %d on", address, self._target.appended)
            self.problem, self._said = "", "follows"


class _Connection:
    """One connection to the primary."""

    def __init__(
        self, owner: Follower, clock: Clock, target: Target, following: Following, talk: ReplicaSide,
        authentication: ReplicaAuthentication | None,
    ) -> None:  # fmt: skip
        self._owner = owner
        self._clock = clock
        self._target = target
        self._following = following
        self._talk = talk
        self._authentication = authentication
        self._link: Link | None = None
        self._timer: Timer | None = None
        self._heard = self._said = clock.monotonic()
        self._spoke: float | None = None
        """When something came over this connection last; None: nothing has."""
        self._greeted = False
        """Whether the primary has answered, where it has to."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connected(self, link: Link) -> None:
        self._link = link
        self._heard = self._clock.monotonic()
        if self._authentication is None:
            self._begin(link)
            return
        link.write(self._authentication.ask())
        self._timer = self._clock.call_later(ANSWER_S, self._not_answered)

    def _not_answered(self) -> None:
        link, authentication = self._link, self._authentication
        if link is None or authentication is None:
            return
        try:
            authentication.silent()
        except GantryError as error:
            self._fail(error)
        else:
            self._let_in(link)

    def _let_in(self, link: Link) -> None:
        self._authentication = None
        if self._timer is not None:
            self._timer.cancel()
        self._begin(link)

    def _begin(self, link: Link) -> None:
        hello = self._talk.hello()
        link.write(hello or self._talk.report(self._following.begin))
        self._greeted = not hello
        self._timer = self._clock.call_later(self._owner.pace.beat / 2, self._beat)
        if not hello and self._following.state is State.FOLLOWING:
            self._talk.followed()

    def heard_within(self, seconds: float) -> bool:
        """A connection alone says nothing: the system of a silent program accepts it, too."""
        spoke = self._spoke
        return self._link is not None and spoke is not None and self._clock.monotonic() - spoke <= seconds

    def received(self, data: bytes) -> None:
        link, authentication = self._link, self._authentication
        if link is None:
            return
        if authentication is not None:
            try:
                answer, data = authentication.feed(data)
            except GantryError as error:
                self._fail(error)
                return
            if answer:
                link.write(answer)
            if authentication.state is not Entry.IN:
                return
            self._let_in(link)
        self._heard = self._spoke = self._clock.monotonic()
        self._owner.heard_ms = self._clock.wall_ms()
        target, following = self._target, self._following
        try:
            for frame in self._talk.feed(data):
                if isinstance(frame, Welcome):
                    self._greeted = True
                    common = self._talk.common(following.own_end)
                    if common is not None and common < following.own_end:
                        raise Differs(common)  # before a report that Apache's primaries would believe
                    link.write(self._talk.report(following.begin))
                    if following.state is State.FOLLOWING:
                        self._talk.followed()
                    continue
                known = following.own_end - frame.place if following.state is State.COMPARING else 0
                own = target.read_raw(frame.place, min(len(frame.data), known)) if known > 0 else b""
                compared = following.state is State.COMPARING
                new = following.takes(frame, own)
                if compared and following.state is State.FOLLOWING:
                    self._owner.joined()  # before the first byte of the primary is appended
                    self._talk.followed()
                if new:
                    target.append_raw(frame.place + len(frame.data) - len(new), new)
        except (GantryError, OSError) as error:
            self._fail(error)
            return
        if data:
            self._owner.follows(following.state, link.peer)

    def report(self) -> None:
        """Say how far this log is safe. Not before it is known to be the primary's."""
        if self._authentication is not None:
            return
        if self._link is not None and self._greeted and self._following.state is State.FOLLOWING:
            self._said = self._clock.monotonic()
            self._owner.reported_ms = self._clock.wall_ms()
            self._link.write(self._talk.report(self._target.stored))

    def _beat(self) -> None:
        now = self._clock.monotonic()
        pace = self._owner.pace
        self._timer = self._clock.call_later(pace.beat / 2, self._beat)
        if now - self._heard > pace.silence:
            self._fail(StoreError(f"the primary has said nothing for {pace.silence:g} s"))
        elif self._following.state is State.COMPARING and self._link is not None and self._greeted:
            self._link.write(self._talk.report(0))  # a sign of life that confirms nothing
        elif now - self._said >= pace.beat / 2 and now - self._heard <= QUIET_BEATS * pace.beat:
            self.report()

    def lost(self, reason: str) -> None:
        self._link = None
        following = self._following
        if self._authentication is not None:
            self.end(f"{NOT_ANSWERED}: {reason}")
        elif (
            following.state is State.COMPARING and following.next_place == following.begin > self._target.min_log_offset
        ):
            # Our primaries end the connection of a replica whose log is longer.
            self._fail(NotThere(f"the primary has ended the connection, and sent nothing: {reason}"))
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
