"""When a position of the log is safe, with a second condition that confirms late."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gantrymq.errors import DiskFull, InvariantViolated, StoreError, StoreUnavailable
from gantrymq.message.send_status import SendStatus
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.config import FlushDiskType
from gantrymq.store.log.conditions import Unconfirmed
from gantrymq.store.message_store import MessageStore
from tests.support.places import HOST, record, run, small
from tests.support.safety import LateReplica, empty_dispatch, empty_log, safety_of
from tests.support.sim_clock import SimClock, settle

ROOT = "/data/store"
Answers = list[StoreError | SendStatus | None]
LIMITS = st.none() | st.integers(1, 3)


def opened(
    disk: SimDisk, replica: LateReplica | None, clock: SimClock | None = None, *, flush_limit_ms: int | None = None,
    mode: FlushDiskType = FlushDiskType.SYNC_FLUSH,
) -> MessageStore:  # fmt: skip
    return MessageStore.open(
        small(ROOT, flush_disk_type=mode, sync_flush_timeout=flush_limit_ms or 0), disk, clock or SimClock(), HOST,
        conditions=() if replica is None else (replica,),
    )  # fmt: skip


def visible(store: MessageStore) -> int:
    return store.queue_range("Orders", 0)[1]


@pytest.mark.parametrize("mode", list(FlushDiskType))
def test_nothing_is_visible_or_acknowledged_before_the_replica_has_it(mode: FlushDiskType) -> None:
    async def scenario() -> None:
        replica = LateReplica()
        store = opened(SimDisk(), replica, mode=mode)
        heard: list[str] = []
        ends = []

        def hear(name: str, status: SendStatus | StoreError) -> None:
            assert isinstance(status, SendStatus)
            heard.append(f"{name} {status.name}")

        for name in ("first", "second"):
            (place,) = store.append([record()])
            ends.append(place.end)
            store.safety.when_safe(place.end, lambda _error, name=name: heard.append(f"{name} safe"))  # type: ignore[misc]
            store.safety.when_answerable(place.end, True, partial(hear, name))
            store.safety.when_answerable(place.end, False, lambda _status, name=name: heard.append(f"{name} written"))  # type: ignore[misc]
            await settle()
        assert (heard, visible(store)) == (["first written", "second written"], 0)
        del heard[:]
        replica.confirm(ends[0] - 1)
        assert (heard, visible(store)) == ([], 0)
        replica.confirm(ends[0])
        assert (heard, visible(store)) == (["first safe", "first SEND_OK"], 1)
        replica.confirm(ends[1] + 1_000)
        assert (heard[2:], visible(store)) == (["second safe", "second SEND_OK"], 2)
        store.append([record()])  # confirmed ahead of its writing: then the disk alone is waited for
        await settle()
        assert visible(store) == 3

    run(scenario())


def test_a_write_becomes_safe_as_a_whole() -> None:

    async def scenario() -> None:
        replica = LateReplica()
        store = opened(SimDisk(), replica)
        together: list[str] = []
        ends = [store.append([record()])[0].end for _ in range(3)]
        for number, end in enumerate(ends):
            store.safety.tell(end, lambda item, _error: together.append(item), str(number))
        await settle()
        replica.confirm(ends[1])
        assert (together, visible(store)) == ([], 0)
        replica.confirm(ends[2])
        assert (together, visible(store)) == (["0", "1", "2"], 3)

    run(scenario())


def test_a_sender_is_told_at_the_limit_and_consumers_wait_on() -> None:
    async def scenario() -> None:
        clock, replica = SimClock(), LateReplica(limit_ms=500)
        store = opened(SimDisk(), replica, clock)
        statuses: Answers = []
        safe: Answers = []
        (place,) = store.append([record()])
        store.safety.when_answerable(place.end, True, statuses.append)
        store.safety.when_safe(place.end, safe.append)
        told: list[tuple[str, StoreError | None]] = []
        store.safety.tell_sender(place.end, lambda item, error: told.append((item, error)), "x")
        await clock.advance(0.499)
        assert (statuses, told) == ([], [])
        await clock.advance(0.001)
        ((item, late),) = told
        assert (statuses, safe, item, visible(store)) == ([SendStatus.FLUSH_SLAVE_TIMEOUT], [], "x", 0)
        assert isinstance(late, Unconfirmed) and "the replica within 500 ms" in late.reason
        replica.confirm(place.end)
        assert (statuses, safe, visible(store)) == ([SendStatus.FLUSH_SLAVE_TIMEOUT], [None], 1)
        assert len(told) == 1 and clock.waiting <= 1  # of the store's own

    run(scenario())


def test_without_a_replica_a_sender_is_told_as_soon_as_it_is_stored_here() -> None:
    async def scenario() -> None:
        disk, replica = SimDisk(), LateReplica(available=False)
        store = opened(disk, replica)
        disk.hold_syncs = True
        statuses: Answers = []
        places = []
        for turn in range(2):
            places += store.append([record()])
            store.safety.when_answerable(places[-1].end, True, statuses.append)
            await settle()
            assert statuses == [SendStatus.SLAVE_NOT_AVAILABLE] * turn
            disk.release_sync()
            await settle()
        assert statuses == [SendStatus.SLAVE_NOT_AVAILABLE] * 2 and visible(store) == 0
        replica.come()
        (last,) = store.append([record()])
        store.safety.when_answerable(last.end, True, statuses.append)
        disk.hold_syncs = False
        await settle()
        while disk.held:
            disk.release_sync()
            await settle()
        assert len(statuses) == 2
        replica.go()
        assert statuses[2:] == [SendStatus.SLAVE_NOT_AVAILABLE]
        replica.confirm(last.end)
        assert visible(store) == 3

    run(scenario())


def test_a_limit_of_the_local_disk() -> None:
    async def scenario() -> None:
        clock, disk = SimClock(), SimDisk()
        store = opened(disk, None, clock, flush_limit_ms=100)
        disk.hold_syncs = True
        statuses: Answers = []
        places = [*store.append([record()]), *store.append([record()])]
        for place in places:
            store.safety.when_answerable(place.end, True, statuses.append)
        await clock.advance(0.1)
        assert statuses == [SendStatus.FLUSH_DISK_TIMEOUT] * 2 and visible(store) == 0
        disk.release_sync()
        await settle()
        assert len(statuses) == 2 and visible(store) == 2

    run(scenario())


def test_two_limits_are_both_waited_for_and_the_later_condition_is_named() -> None:
    async def scenario() -> None:
        clock, disk, replica = SimClock(), SimDisk(), LateReplica(limit_ms=50)
        store = opened(disk, replica, clock, flush_limit_ms=100)
        disk.hold_syncs = True
        statuses: Answers = []
        (place,) = store.append([record()])
        store.safety.when_answerable(place.end, True, statuses.append)
        await clock.advance(0.099)
        assert statuses == []
        await clock.advance(0.001)
        assert statuses == [SendStatus.FLUSH_SLAVE_TIMEOUT]

    run(scenario())


def test_a_limit_says_nothing_of_what_is_not_stored_here() -> None:
    async def scenario() -> None:
        clock, disk, replica = SimClock(), SimDisk(), LateReplica(limit_ms=50)
        store = opened(disk, replica, clock)
        disk.hold_syncs = True
        statuses: Answers = []
        (place,) = store.append([record()])
        store.safety.when_answerable(place.end, True, statuses.append)
        await clock.advance(10)
        assert statuses == []  # the disk has no limit
        disk.release_sync()
        await settle()
        assert statuses == [SendStatus.FLUSH_SLAVE_TIMEOUT]

    run(scenario())


def test_a_failed_write_is_told_and_its_places_are_given_again() -> None:
    async def scenario() -> None:
        disk, replica = SimDisk(), LateReplica(available=False)
        store = opened(disk, replica)
        (kept,) = store.append([record()])
        await settle()
        waiting: Answers = []
        store.safety.when_safe(kept.end, waiting.append)
        disk.free_bytes = 0
        (lost,) = store.append([record()])
        statuses: Answers = []
        store.safety.when_answerable(lost.end, True, statuses.append)
        await settle()
        assert len(statuses) == 1 and isinstance(statuses[0], DiskFull) and waiting == []
        disk.free_bytes = None
        (again,) = store.append([record(body=b"longer than the one before")])
        assert (again.log_offset, again.queue_offset) == (lost.log_offset, lost.queue_offset)
        await settle()
        replica.confirm(again.end)
        assert (waiting, visible(store), len(statuses)) == ([None], 2, 1)

    run(scenario())


def test_a_failed_sync_takes_back_what_was_told_a_disk_timeout_only_from_consumers() -> None:
    async def scenario() -> None:
        clock, disk = SimClock(), SimDisk()
        store = opened(disk, None, clock, flush_limit_ms=100)
        store.append([record()])
        await settle()
        disk.hold_syncs = True
        disk.fail_next_sync("commitlog")
        statuses: Answers = []
        safe: Answers = []
        (place,) = store.append([record()])
        store.safety.when_answerable(place.end, True, statuses.append)
        store.safety.when_safe(place.end, safe.append)
        await clock.advance(0.1)
        disk.release_sync()
        await settle()
        assert statuses == [SendStatus.FLUSH_DISK_TIMEOUT] and visible(store) == 1
        assert len(safe) == 1 and isinstance(safe[0], StoreUnavailable)

    run(scenario())


def test_a_crash_between_the_disk_and_the_replica_loses_nothing_and_nobody_was_told_success() -> None:
    async def scenario() -> None:
        disk, replica = SimDisk(), LateReplica()
        store = opened(disk, replica)
        answers: Answers = []
        (place,) = store.append([record(body=b"kept")])
        store.safety.when_answerable(place.end, True, answers.append)
        await settle()
        after = opened(disk.power_cut(), LateReplica(limit_ms=5))
        assert answers == [] and [message.body for message in after.scan(0)] == [b"kept"]
        assert visible(after) == 1 and after.safety.position == place.end

    run(scenario())


def test_a_store_that_is_closed_with_unconfirmed_records_has_them_at_its_next_start() -> None:
    async def scenario() -> None:
        disk, replica = SimDisk(), LateReplica(limit_ms=10_000)
        store = opened(disk, replica)
        statuses: Answers = []
        (place,) = store.append([record(body=b"kept")])
        store.safety.when_answerable(place.end, True, statuses.append)
        await settle()
        store.safety.give_up()
        assert statuses == [SendStatus.FLUSH_SLAVE_TIMEOUT]
        await store.close()
        replica.confirm(place.end)  # too late: its files are closed
        assert visible(store) == 0 and disk.exists(f"{ROOT}/abort")
        after = opened(disk, None)
        assert visible(after) == 1

    run(scenario())


def test_only_what_is_appended_can_be_waited_for() -> None:
    log = empty_log()
    safety = safety_of(log)
    with pytest.raises(InvariantViolated):
        safety.when_safe(1, lambda _error: None)
    safety.stopped = StoreUnavailable("closed")
    answers: Answers = []
    safety.when_safe(1, answers.append)
    safety.when_written(1, answers.append)
    assert answers == [safety.stopped] * 2


class SafetyMachine(RuleBasedStateMachine):
    """Every interleaving of appends, writes, syncs, confirmations, limits and failures, against the definition."""

    @initialize(sync=st.booleans(), limit_ms=LIMITS, flush_limit_ms=LIMITS)
    def begin(self, sync: bool, limit_ms: int | None, flush_limit_ms: int | None) -> None:
        self.sync = sync
        self.clock = ManualClock()
        self.log, self.dispatch = empty_log(), empty_dispatch()
        self.replica = LateReplica(limit_ms)
        self.safety = safety_of(
            self.log, self.dispatch, self.clock, (self.replica,), flush_limit_ms=flush_limit_ms if sync else None
        )
        self.ends: list[int] = []
        """Of writes."""
        self.waiting: dict[int, int] = {}
        """Number to end, of who waits for safety."""
        self.unanswered: dict[int, int] = {}
        self.count = 0
        self.order: list[int] = []
        self.failed_below = 0

    @property
    def safe(self) -> int:
        """By the definition."""
        local = self.log.flushed if self.sync else self.log.written
        return max([0, *(end for end in self.ends if end <= min(local, self.replica.position))])

    @rule(size=st.integers(1, 4), shared=st.booleans(), wait=st.booleans())
    def append(self, size: int, shared: bool, wait: bool) -> None:
        self.log.appended += size
        end, number = self.log.appended, self.count
        self.count += 1
        self.waiting[number] = self.unanswered[number] = end
        self.safety.when_safe(end, lambda error: self._ended(number, error))
        if shared:
            self.safety.tell_sender(end, self._told, (number, end))
        else:
            self.safety.when_answerable(end, wait, lambda status: self._answered(number, end, status, wait))

    def _ended(self, number: int, error: StoreError | None) -> None:
        end = self.waiting.pop(number)
        assert (end <= self.safe) == (error is None)
        if error is None:
            self.order.append(number)

    def _told(self, item: tuple[int, int], error: StoreError | None) -> None:
        status = error.status if isinstance(error, Unconfirmed) else error
        self._answered(*item, SendStatus.SEND_OK if status is None else status, True)

    def _answered(self, number: int, end: int, status: StoreError | SendStatus, wait: bool) -> None:
        del self.unanswered[number]  # once
        if isinstance(status, StoreError):
            assert end > self.log.written or (self.sync and end > self.log.flushed)
        elif status is SendStatus.SEND_OK:
            assert end <= (self.safe if wait else self.log.written)
        else:
            assert wait and self.safe < end <= self.log.written
            if status is SendStatus.SLAVE_NOT_AVAILABLE:
                assert not self.replica.available
            if status is not SendStatus.FLUSH_DISK_TIMEOUT and self.safety._local.limit_ms is None:
                assert end <= (self.log.flushed if self.sync else self.log.written)

    @precondition(lambda self: self.log.appended > self.log.written)
    @rule()
    def write(self) -> None:
        self.log.written = self.log.appended
        self.ends.append(self.log.written)
        if not self.sync:
            self.safety.stored_here(self.log.written)
        self.safety.written(self.log.written)

    @precondition(lambda self: self.log.appended > self.log.written)
    @rule()
    def write_fails(self) -> None:
        self.log.appended = self.log.written
        self.safety.taken_back(self.log.written, DiskFull("full"))

    @precondition(lambda self: self.sync and self.log.flushed < self.log.written)
    @rule(data=st.data())
    def sync_ends(self, data: Any) -> None:
        self.log.flushed = data.draw(st.sampled_from([end for end in self.ends if end > self.log.flushed]))
        self.safety.stored_here(self.log.flushed)

    @rule(more=st.integers(1, 9))
    def replica_confirms(self, more: int) -> None:
        self.replica.confirm(self.replica.position + more)

    @rule(there=st.booleans())
    def replica_comes_or_goes(self, there: bool) -> None:
        (self.replica.come if there else self.replica.go)()

    @rule(ms=st.integers(1, 3))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(ms)

    @invariant()
    def what_is_safe_is_visible_and_answered_in_order(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.safety.position == self.dispatch.position == self.safe
        assert all(end > self.safe for end in self.waiting.values())
        assert all(end > self.safe for end in self.unanswered.values())
        assert self.order == sorted(self.order)


class ManualClock(SimClock):
    """Milliseconds without a loop."""

    def advance(self, ms: int) -> None:  # type: ignore[override]
        import heapq

        end = self._now + ms / 1000
        while self._timers and self._timers[0][0] <= end:
            self._now, _number, timer = heapq.heappop(self._timers)
            if timer.call is not None:
                timer.call()
        self._now = end


TestSafetyMachine: Any = SafetyMachine.TestCase
TestSafetyMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
