"""When each open half message is looked at again: one timer for all of them; what a change of the settings moves; and
whose turn it is when a group has more checks to answer than its members can keep in mind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from gantrymq.broker.transactions.ports import ProducerGroups
from gantrymq.errors import CorruptRecord
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.steady import STEP_MS
from gantrymq.transactions.config import TransactionConfig
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.records.half import read_half
from gantrymq.transactions.rules.check_policy import immunity_ms
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.due_times import DueTimes
from gantrymq.transactions.table.open_halves import NOT_NOTED, OpenHalf, TransactionTable

LOOKS_PER_TURN: Final = 64
"""Half messages looked at in one turn of the loop, about 50 us each: a burst delays other work by 4 ms at most."""

WAKES_PER_TURN: Final = 2_000
"""Halves put to the front in one turn because a producer came, at about 1 us each."""


class CheckSchedule:
    """Calls ``look`` with each half message that is due, and with the time (monotonic seconds)."""

    def __init__(
        self, table: TransactionTable, store: HalfStore, clock: Clock, look: Callable[[OpenHalf, float], None]
    ) -> None:
        self._table = table
        self._safety = store.safety
        self._clock = clock
        self._look_at = look
        self._due = DueTimes(table)
        self._timer: Timer | None = None
        self._timer_due = 0.0
        self._running = False
        self._wakes_per_turn = WAKES_PER_TURN
        # The half that ``watch`` was given last, the safe position then, and the end of its immunity.
        self._stored_at = self._immunity_ms = self._position = -1
        self._until = 0.0
        self._ahead_ms = clock.wall_ms() - int(clock.monotonic() * 1000)
        """How far the wall clock was ahead of the monotonic one at the last look."""

    def start(self) -> None:
        """Begin to look; half messages that are overdue are looked at at once."""
        self._running = True
        self._arm()

    def close(self) -> None:
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def watch(self, halves: Iterable[OpenHalf], *, anew: bool = False) -> None:
        """Look at halves when their immunity ends. ``anew``: all of it is counted from now on: another machine stored
        them, whose clock may be another one; or their senders have waited for others to confirm them, and begin their
        local transactions only now."""
        position = self._safety.position
        for half in halves:
            stored_at, immunity_ms = half.stored_at, half.immunity_ms
            # Halves that became safe together nearly always have one end.
            if position != self._position or stored_at != self._stored_at or immunity_ms != self._immunity_ms:
                self._stored_at, self._immunity_ms, self._position = stored_at, immunity_ms, position
                wall_ms, now = self._clock.wall_ms(), self._clock.monotonic()
                ahead_ms = wall_ms - int(now * 1000)
                # At most the immunity itself: a wall clock that was set back must not make a half immune for longer.
                # The whole of it when the clock was set forward since the last look: perhaps while this half was on
                # its way to the disk, and then the difference of two times of the clock is no time that has passed.
                stepped = ahead_ms - self._ahead_ms >= STEP_MS
                left_ms = immunity_ms if stepped or anew else min(stored_at + immunity_ms - wall_ms, immunity_ms)
                self._ahead_ms = ahead_ms
                self._until = now + left_ms / 1000
            half.immune_until = self._until  # maybe long ago: a longer immunity would be counted from its storing, too
            # It may have gone away while its half was on the way to the disk.
            self.put(half, self._clock.monotonic() if half.sender_gone else self._until)

    def watch_run(self, halves: Sequence[OpenHalf], *, anew: bool = False) -> None:
        """``watch`` of halves that were stored together with one immunity, and whose senders are not gone."""
        self.watch(halves[:1], anew=anew)
        until, due = self._until, max(self._until, 0.0)
        others = halves[1:]
        for half in others:
            half.immune_until, half.due = until, due
        self._due.push_all(due, [half.queue_offset for half in others])

    def wake(self, queue_offsets: deque[int]) -> None:
        """Look at these half messages now, in order, a limited number in each turn of the loop."""
        now = self._clock.monotonic()
        for _ in range(min(len(queue_offsets), self._wakes_per_turn)):
            half = self._table.get(queue_offsets.popleft())
            if half is not None:
                half.looked_in_vain = 0
                self.put(half, now)
        if queue_offsets and self._running:
            self._clock.call_later(0.0, lambda: self.wake(queue_offsets))

    def put(self, half: OpenHalf, due: float) -> None:
        """Look at a half message then (monotonic seconds), and no more when it was due before."""
        if due < 0.0:  # that says that there is none
            due = 0.0
        half.due = due
        self._due.push(due, half.queue_offset)
        if self._running and (self._timer is None or due < self._timer_due):
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._due.next_due()
        if due is not None and self._running:
            self._timer_due = due
            self._timer = self._clock.call_later(max(due - self._clock.monotonic(), 0.0), self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for queue_offset in list(self._due.pop_due(now, LOOKS_PER_TURN)):
            half = self._table.get(queue_offset)
            if half is not None:
                self._look_at(half, now)
        self._arm()


HALVES_PER_TURN: Final = 500
"""Rescheduled in one turn of the loop, at a few us each."""


class ChangedTimes:
    """Adapts open half messages to the settings: each one when it is looked at, and all of them after a change.

    ``transactionTimeOut`` moves the end of their immunity, earlier or later, except for those with an immunity of their
    own. A shorter ``transactionCheckInterval`` applies to checks that wait for their answer, a longer one from the next
    check on. Source: TransactionalMessageServiceImpl.check, which reads the settings in each round.

    A million of them takes seconds. None is checked too early in that time, because each is adapted before any decision
    about it.
    """

    def __init__(
        self, config: TransactionConfig, store: HalfStore, clock: Clock, schedule: Callable[[OpenHalf, float], None]
    ) -> None:
        """``schedule``: called with a half and the time of the next look at it."""
        self._config = config
        self._store = store
        self._clock = clock
        self._schedule = schedule
        self._left: deque[OpenHalf] = deque()
        self._closed = False

    def close(self) -> None:
        self._closed = True
        self._left.clear()

    def changed(self, config: TransactionConfig, halves: Iterable[OpenHalf]) -> None:
        """The settings have changed. ``halves``: all halves that are open."""
        before, self._config = self._config, config
        if (before.timeout_ms, before.check_interval_ms) == (config.timeout_ms, config.check_interval_ms):
            return
        waiting = bool(self._left)
        self._left = deque(halves)
        if not waiting:
            self._move_some()

    def _move_some(self) -> None:
        if self._closed:
            return
        now = self._clock.monotonic()
        for _ in range(min(HALVES_PER_TURN, len(self._left))):
            self._move(self._left.popleft(), now)
        if self._left:
            self._clock.call_later(0.0, self._move_some)

    def _move(self, half: OpenHalf, now: float) -> None:
        """Schedule the next look at a half by the current settings."""
        waits_for_immunity = half.due == half.immune_until and not half.answer_deadline
        self.fit(half)
        if half.state is not State.OPEN or half.due < 0:
            return
        if waits_for_immunity:
            if half.due != half.immune_until:
                self._schedule(half, max(half.immune_until, now))
            return
        latest = now + self._config.check_interval_ms / 1000
        if half.due > latest and half.immune_until <= now and not half.looked_in_vain:
            half.answer_deadline = min(half.answer_deadline, latest)
            self._schedule(half, latest)

    def fit(self, half: OpenHalf) -> None:
        """Give it the immunity of the settings, counted by the monotonic clock, whatever the wall clock did."""
        timeout_ms = self._config.timeout_ms
        if half.immunity_ms == timeout_ms or half.own_immunity_ms > 0 or self._has_its_own(half):
            return
        if half.state >= State.OPEN:  # until then it has no end yet
            half.immune_until += (timeout_ms - half.immunity_ms) / 1000
        half.immunity_ms = timeout_ms

    def _has_its_own(self, half: OpenHalf) -> bool:
        """Whether the sender asked for another immunity. For a copy that an Apache broker put back only the record says
        so; a copy that cannot be read keeps the immunity it has."""
        if half.own_immunity_ms != NOT_NOTED:
            return False
        try:
            record = self._store.read(half.log_offset)
            return record is None or immunity_ms(read_half(record).immunity_text, 0) > 0
        except CorruptRecord:
            return True


OUTSTANDING_PER_PRODUCER: Final = 1_000
"""Checks that may wait for their answers, per live producer of a group. Clients keep 2,000 in mind; more than that they
drop (Apache's) or answer UNKNOWN (ours), which would count as asked (X6)."""


class CheckTurns:
    """Counts the checks that are not answered, by group. A half message *has a turn* while its check is one of them."""

    def __init__(
        self, table: TransactionTable, producers: ProducerGroups, per_producer: int = OUTSTANDING_PER_PRODUCER
    ) -> None:
        self._table = table
        self._producers = producers
        self._per_producer = per_producer
        self._outstanding: dict[str, int] = {}
        """Checks sent and not answered, by group."""
        self._waiting: dict[str, deque[int]] = {}
        """Half messages that wait for a turn, by group, the longest first. Some may have been decided meanwhile."""

    def is_crowded(self, half: OpenHalf) -> bool:
        """Whether the group of a half has as many checks to answer as its members can keep in mind."""
        outstanding = self._outstanding.get(half.group, 0)
        if half.has_turn or outstanding < self._per_producer:
            return False
        return outstanding >= self._per_producer * len(self._producers.members(half.group))

    def wait(self, half: OpenHalf) -> None:
        """A half whose group is crowded waits for a turn."""
        if not half.in_line:
            half.in_line = True
            self._waiting.setdefault(half.group, deque()).append(half.queue_offset)

    def take(self, half: OpenHalf) -> None:
        """A check of a half was sent."""
        half.in_line = False
        if not half.has_turn:
            half.has_turn = True
            self._outstanding[half.group] = self._outstanding.get(half.group, 0) + 1

    def give_back(self, half: OpenHalf) -> OpenHalf | None:
        """The check of a half needs no answer any more. Returns the half that has the turn now; None: nobody waits."""
        if not half.has_turn:
            return None
        half.has_turn = False
        group = half.group
        waiting = self._waiting.get(group)
        while waiting:
            following = self._table.get(waiting.popleft())
            if following is not None and following.in_line:
                following.in_line = False
                following.has_turn = True
                return following
        self._waiting.pop(group, None)
        left = self._outstanding[group] - 1
        if left:
            self._outstanding[group] = left
        else:
            del self._outstanding[group]
        return None
