"""When a position of the log is safe: from then on consumers get what lies before it, and whoever waits is answered.

A position is safe when every condition holds for it. The first condition is the local disk: with SYNC_FLUSH what lies
before the position is synced, with ASYNC_FLUSH it is written. Others, such as "a replica has it", are given to the
constructor. Nothing else decides about visibility or acknowledgement.

| what happened to a position               | ``when_safe``         | senders (``when_stored``, ``late``) | consumers |
|-------------------------------------------|-----------------------|-------------------------------------|-----------|
| every condition holds                     | None                  | None (SEND_OK)                      | get it    |
| a limit passed, the rest holds            | nothing, they wait on | Unconfirmed with ``expired``        | not yet   |
| nobody is there to confirm, the rest holds| nothing, they wait on | Unconfirmed with ``absent``         | not yet   |
| it becomes safe after that                | None                  | nothing more                        | get it    |
| its write or its sync failed              | the StoreError        | the StoreError, if not told before  | never     |

Senders that do not wait (``wait`` false) are answered after the write. While a condition without a limit is missing
nobody is told anything: the local disk has none unless ``flush_limit_ms`` gives it one.

What recovery finds in the log when the store is opened is safe up to where others had confirmed it, as the store has
noted (``MessageStore.note_confirmed``). The rest waits for its conditions as if it had been written just now. Where
nobody else had to confirm anything, all of it is safe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from gantrymq.errors import InvariantViolated, StoreError, StoreUnavailable
from gantrymq.message.send_status import SendStatus
from gantrymq.runtime.clock import Clock
from gantrymq.store.dispatch import Dispatch
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.log.conditions import Condition, LocalDisk, status_of
from gantrymq.store.log.flush import Done, Told, Waiters, pass_on
from gantrymq.store.log.limits import Late, Limits


class LogSafety:
    """The one object that knows how far the log is safe. Its store's appender reports to it, everybody else waits."""

    def __init__(
        self,
        commit_log: CommitLog,
        dispatch: Dispatch,
        clock: Clock,
        conditions: Sequence[Condition] = (),
        flush_limit_ms: int | None = None,
        confirmed: int | None = None,
    ) -> None:
        """``flush_limit_ms``: how long senders wait for the local disk; None: as long as it takes. ``confirmed``: the
        log is safe up to there already; None: all of it is."""
        self._log = commit_log
        self._dispatch = dispatch
        self._local = LocalDisk(commit_log.written, flush_limit_ms)
        self._parts: tuple[Condition, ...] = (self._local, *conditions)
        self.has_conditions = bool(conditions)
        """Whether more than the local disk must confirm."""
        self._limited = bool(conditions) or flush_limit_ms is not None
        """Whether a sender can be answered before its position is safe."""
        self.position = commit_log.written if confirmed is None else confirmed
        """Everything before this log offset is safe: visible to consumers and acknowledged."""
        self._ends: deque[int] = deque([commit_log.written] if self.position < commit_log.written else [])
        """Where writes end that are not safe yet. Safety grows by whole writes."""
        self._waiting = Waiters()
        self._written = Waiters()
        self._synced = Waiters()
        self._limits = Limits(commit_log, clock, self._parts, self._ends, lambda: self.position)
        self.stopped: StoreUnavailable | None = None
        """Why nothing more is written; set by the appender."""
        self._closed = False
        self.grown: list[Callable[[int], None]] = []
        """Called when more of the log is safe on the disk here, with the log offset behind it."""
        for condition in conditions:
            condition.follow(self._confirmed)

    def require(self, conditions: Sequence[Condition]) -> None:
        """From now on these must hold beside that of the local disk, in place of those before. Nobody may be waiting:
        see ``resign``. What was safe stays so; without conditions everything that is stored here is."""
        self._parts = (self._local, *conditions)
        self.has_conditions = bool(conditions)
        self._limited = self.has_conditions or self._local.limit_ms is not None
        self._limits.change(self._parts)
        for condition in conditions:
            condition.follow(self._confirmed)
        if not conditions:
            self._ends.clear()
            if self._local.position > self.position:
                self._grow(self._local.position)

    # ---- waiting

    def when_safe(self, end: int, done: Done) -> None:
        """Call ``done(None)`` once everything before log offset ``end`` is safe.

        ``done(error)`` when that failed: DiskFull (the records are not in the log) or StoreUnavailable. It may be
        called at once. To be called in the turn of the append, because a failed write gives its place to others.
        """
        self.tell(end, pass_on, done)

    def tell(self, end: int, told: Told, item: Any, late: Late | None = None) -> None:
        """``when_safe`` with calls of ``told(item, error)``, for what happens to every message: no function has to be
        made for each. ``late(item, error)`` is called at most once, before ``told``, when the limits have passed."""
        if end > self._log.appended:
            self._check_end(end)
        if end <= self.position:
            told(item, None)
        elif self.stopped is not None and end > self._local.position:
            told(item, self.stopped)
        else:
            self._waiting.add(end, told, item)
            if late is not None and self._limited:
                self._limits.add(end, late, item)

    def tell_sender(self, end: int, told: Told, item: Any) -> None:
        """``when_stored`` for a sender that waits, with one call of ``told(item, error)``."""
        if self._limited:
            sender = _Sender(told, item)
            self.tell(end, _tell_once, sender, _tell_once)
        else:
            self.tell(end, told, item)

    def when_stored(self, end: int, wait: bool, done: Done) -> None:
        """For one that sent a message: like ``when_safe``, but ``done(Unconfirmed)`` when the limits have passed, and
        after the write when the sender does not ``wait`` (WAIT=false)."""
        if not wait:
            self.when_written(end, done)
        else:
            self.tell_sender(end, pass_on, done)

    def when_answerable(self, end: int, wait: bool, answer: Callable[[SendStatus | StoreError], None]) -> None:
        """``when_stored``, answered with the status of the message or with the reason why it is not stored."""
        self.when_stored(end, wait, lambda error: answer(status_of(error)))

    def when_written(self, end: int, done: Done) -> None:
        """Call ``done`` once everything before ``end`` is in the file, safe or not, or that failed."""
        self._check_end(end)
        if end <= self._log.written:
            done(None)
        elif self.stopped is not None:
            done(self.stopped)
        else:
            self._written.add(end, pass_on, done)

    def when_synced(self, done: Done) -> None:
        """Call ``done`` once everything written by now is synced, whatever the mode. The appender begins the sync."""
        if not self._log.dirty:
            done(None)
        elif self.stopped is not None:
            done(self.stopped)
        else:
            self._synced.add(self._log.written, pass_on, done)

    def _check_end(self, end: int) -> None:
        """A position that was taken back must not be waited for: other records will come to lie there."""
        if end > self._log.appended and self.stopped is None:
            raise InvariantViolated("only what is appended can be waited for, in the turn of its append")

    # ---- what the appender reports

    def stored_here(self, position: int) -> None:
        """The local condition holds up to ``position``, where a write ends."""
        self._local.position = position
        if self.has_conditions:
            self._end_at(position)
            self._confirmed()
        else:
            self._grow(position)
        for grown in self.grown:
            grown(position)

    @property
    def stored(self) -> int:
        """Everything before this log offset is safe on the disk here, whatever else has to confirm it."""
        return self._local.position

    def written(self, position: int) -> None:
        """Everything before ``position`` is in the file."""
        if self.has_conditions:
            self._end_at(position)
        self._written.reached(position)
        if self._limited:
            self._limits.look()

    def synced(self, position: int) -> None:
        """Everything before ``position`` is synced."""
        self._synced.reached(position)

    def taken_back(self, position: int, error: StoreError) -> None:
        """What lies behind ``position`` will not be stored."""
        self._dispatch.take_back(position)
        self._limits.taken_back(position)
        for waiters in (self._waiting, self._written, self._synced):
            waiters.fail(position, error)

    def sync_failed(self, position: int, error: StoreError) -> None:
        """What lies behind ``position`` will not be synced."""
        self._synced.fail(position, error)

    def truncated(self, position: int, error: StoreError) -> None:
        """The log ends at ``position`` now, where something was safe perhaps. Whoever waits for what is gone is told
        ``error``."""
        for part in self._parts:
            part.truncated(position)
        while self._ends and self._ends[-1] > position:
            self._ends.pop()
        self.position = min(self.position, position)
        if self.has_conditions:
            self._end_at(position)
        self.taken_back(position, error)

    def resign(self, error: StoreError) -> int | None:
        """Whoever waits for something to become safe is told ``error``: it may become so, and nobody here knows.
        Returns the log offset from which on that is so; None: nothing was waited for."""
        doubtful = self.position if self.position < self._log.written else None
        self._limits.taken_back(self.position)
        for waiters in (self._waiting, self._written):
            waiters.fail(self.position, error)
        return doubtful

    # ---- growing

    def _end_at(self, position: int) -> None:
        """A write ended there."""
        if position > (self._ends[-1] if self._ends else self.position):
            self._ends.append(position)

    def _confirmed(self) -> None:
        """A condition changed, or more is stored here."""
        if self._closed:
            return
        confirmed = min([part.position for part in self._parts])
        ends, position = self._ends, self.position
        while ends and ends[0] <= confirmed:
            position = ends.popleft()
        if position > self.position:
            self._grow(position)
        else:
            self._limits.look()

    def _grow(self, position: int) -> None:
        """The one place where records become visible and are acknowledged."""
        self.position = position
        self._dispatch.advance(position)
        self._waiting.reached(position)
        if self._limited:
            self._limits.look()

    # ---- the end

    def give_up(self) -> None:
        """The broker is about to stop: senders of what is stored here are told now what a passed limit would tell."""
        self._limits.give_up()

    def close(self) -> None:
        """Nothing becomes safe any more."""
        self._closed = True
        self._limits.cancel()


class _Sender:
    """Is told once: the limits may pass first, and it becomes safe later."""

    __slots__ = ("item", "told")

    def __init__(self, told: Told, item: Any) -> None:
        self.told: Told | None = told
        self.item = item


def _tell_once(sender: _Sender, error: StoreError | None) -> None:
    told, sender.told = sender.told, None
    if told is not None:
        told(sender.item, error)
