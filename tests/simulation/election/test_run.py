"""Three brokers elect their primary while machines, lines and etcd fail; more with ``gantry simulate --election``.

A simulation that finds nothing in a broken broker proves nothing about a whole one: each defect below is found.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from gantrymq.broker.replication.election import leadership
from gantrymq.broker.replication.election.in_sync import InSync
from gantrymq.broker.replication.election.leadership import Leadership, Led, Terms
from gantrymq.broker.replication.election.record import Member, Record, elected
from gantrymq.broker.replication.election.record_store import RecordStore
from gantrymq.broker.replication.following import State
from gantrymq.broker.replication.replica import _Connection
from gantrymq.broker.transactions.endings import TransactionEndings
from gantrymq.runtime.clock import Clock
from gantrymq.simulation.election import run as election
from gantrymq.simulation.election.run import DEFAULT, EMPTY_FIRST, run
from gantrymq.simulation.run import Plan, Result
from gantrymq.store.log.flush import Told
from gantrymq.store.log.safety import LogSafety
from tests.simulation.defects import nothing_is_compared, what_is_sent_counts

pytestmark = pytest.mark.pure("parts of the broker are replaced while it runs")
Patch = pytest.MonkeyPatch


SEEDS = range(12)


@functools.cache
def played(seed: int) -> Result:
    return run(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_promise_is_kept(seed: int) -> None:
    result = played(seed)
    assert result.good, f"gantry simulate --election --seed {seed}: {[*map(str, result.violations), *result.errors]}"


def test_primaries_are_lost_and_elected() -> None:
    happened = {name: 0 for name in ("power cut", "process killed", "lines parted", "word of etcd lost", "epochs")}
    for seed in SEEDS:
        injected = played(seed).injected
        happened = {name: count + injected[name] for name, count in happened.items()}
    assert all(happened.values()) and happened["epochs"] > 24, happened


def _anybody_is_elected(patch: Patch) -> None:
    """A broker stands although it may lack what was acknowledged."""

    def taken(record: Record, me: Member, least: int) -> Record:
        return elected(Record(record.epoch, record.primary, record.in_sync | {me.disk}, record.beat), me, least)

    patch.setattr(leadership, "elected", taken)
    patch.setattr(leadership, "may_stand", lambda *_: True)
    patch.setattr("gantrymq.broker.replication.election.rules.may_stand", lambda *_: True)


def _one_is_enough(patch: Patch) -> None:
    """A primary answers when any member has a record, and not all of them."""
    confirmed = InSync.look

    def look(self: InSync) -> None:
        ends = [copy.confirmed for disk, copy in self._copies.items() if disk in self.in_sync]
        self._reached = max(self._reached, max(ends, default=0))
        confirmed(self)

    patch.setattr(InSync, "look", look)


def _answers_before_the_record(patch: Patch) -> None:
    """A primary forgets a member that is away, and asks the record afterwards."""
    change = Leadership._change_set

    async def changes(self: Leadership) -> None:
        assert self.in_sync is not None
        self.in_sync.take(self.in_sync.right())
        await change(self)

    patch.setattr(Leadership, "_change_set", changes)


def _yields_for_ever(patch: Patch) -> None:
    """The broker that was named in a handover is primary, and its record still says that the primary hands over."""

    def kept(record: Record, me: Member, least: int) -> Record:
        return replace(elected(record, me, least), yields=record.yields)

    patch.setattr(leadership, "elected", kept)
    patch.setattr(election, "PEACE_S", 60.0)  # it changes its primary all the time, which takes long to play


def _keeps_its_place(patch: Patch) -> None:
    """A member is a machine: one that has lost its disk is still in the in-sync set."""
    begin = Leadership.__init__

    def begins(self: Leadership, records: RecordStore, clock: Clock, terms: Terms, led: Led, me: Member) -> None:
        begin(self, records, clock, terms, led, replace(me, disk=me.broker_id))

    patch.setattr(Leadership, "__init__", begins)


def _reports_before_the_sync(patch: Patch) -> None:
    """A replica reports what it has, whether it is synced or not."""
    received = _Connection.received

    def reports(self: _Connection) -> None:
        if self._link is not None and self._greeted and self._following.state is State.FOLLOWING:
            self._link.write(self._talk.report(self._target.appended))

    def receives(self: _Connection, data: bytes) -> None:
        received(self, data)
        self.report()

    patch.setattr(_Connection, "report", reports)
    patch.setattr(_Connection, "received", receives)


class _AtOnce:
    """Calls everything safe."""

    def __init__(self, safety: LogSafety) -> None:
        self._safety = safety

    def tell(self, _end: int, told: Told, item: Any, _late: object = None) -> None:
        told(item, None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._safety, name)


def _answers_ends_at_once(patch: Patch) -> None:
    """An end is answered when its op message is appended, and not when it is on each member."""
    made = TransactionEndings.__init__

    def begins(self: TransactionEndings, *given: Any) -> None:
        made(self, *given)
        self._safety = _AtOnce(self._safety)  # type: ignore[assignment]

    patch.setattr(TransactionEndings, "__init__", begins)


DISKS: Final = replace(DEFAULT, faults=(EMPTY_FIRST, "primary lost", "disk lost"), fault_count=4)
DARK: Final = replace(DEFAULT, orders=150, faults=("all lost", "slow disks", "slow disks"), fault_count=16)
ALONE: Final = replace(
    DEFAULT, orders=90, faults=("primary alone", "machines parted", "primary lost", "slow disks"), fault_count=12
)
DEFECTS: dict[str, tuple[Callable[[Patch], None], range, Plan]] = {
    "anybody is elected": (_anybody_is_elected, range(1, 101), DISKS),
    "one is enough": (_one_is_enough, range(54, 154), DEFAULT),
    "answers before the record": (_answers_before_the_record, range(64, 164), DEFAULT),
    "yields for ever": (_yields_for_ever, range(4, 104), DEFAULT),
    "keeps its place without its disk": (_keeps_its_place, range(1, 101), DISKS),
    "reports before the sync": (_reports_before_the_sync, range(118, 218), DARK),
    "believes what it sent": (what_is_sent_counts, range(100), DEFAULT),
    "keeps its surplus": (nothing_is_compared, range(100), DEFAULT),
    "answers ends at once": (_answers_ends_at_once, range(10, 110), ALONE),
}
"""Each defect, the seeds within which it is found, and what happens in them. They begin shortly before the one that
finds it."""


def test_an_empty_machine_that_is_back_first_waits_for_the_others() -> None:
    for seed in range(3):
        result = run(seed, DISKS)
        assert result.good, f"seed {seed}: {[*map(str, result.violations), *result.errors]}"


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    defect, seeds, plan = DEFECTS[name]
    defect(monkeypatch)
    found: Any = next((seed for seed in seeds if not run(seed, plan).good), None)
    print(f"{name}: seed {found}")
    assert found is not None
