"""Crashes at every operation keep every promise; and a broker that does not keep them is found."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gantrymq.broker.transactions import coordinator as transaction_coordinator
from gantrymq.broker.transactions import endings as transaction_endings
from gantrymq.message.system_topics import OP
from gantrymq.simulation.crash.ledger import COMMIT, PARK, ROLLBACK, expected_at
from gantrymq.simulation.crash.outcomes import IN_ORDER, ONE_MISSING, TORN, Effort
from gantrymq.simulation.crash.points import Enumeration, Figures, Plan, Point, silence
from gantrymq.simulation.crash.scenario import play
from gantrymq.store import room
from gantrymq.store.derived_writer import DerivedWriter
from gantrymq.store.files.segment import Segment
from gantrymq.store.log import records
from gantrymq.store.log.flush import Told
from gantrymq.store.log.safety import LogSafety
from gantrymq.store.lookup import Lookup
from gantrymq.store.message_store import MessageStore
from gantrymq.store.recovery import recovery
from gantrymq.store.room import Level, Reason
from gantrymq.store.values import NewRecord, Placement
from gantrymq.transactions import rebuild

PLAIN = Effort(all_up_to=4, kinds=(IN_ORDER, TORN), sampled=0)
MISSING = Effort(all_up_to=4, kinds=(ONE_MISSING,), sampled=0)
PLAINS = Plan(chapters=("topics plain",), effort=PLAIN, again_every=0, kill_every=0)
ENDS = replace(PLAINS, chapters=("topics ends",))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    product = logging.getLogger("gantrymq")
    level = product.level
    silence()
    yield
    product.setLevel(level)


def first_breach(plan: Plan, rule: str, file: str) -> str:
    """The first crash right behind an operation on a file that breaks a rule; "" when none does."""
    enumeration = Enumeration(plan)
    for number in [cut.number for cut in enumeration.played.cuts if file in cut.done]:
        for failure in enumeration.cut(number).failures:
            if any(breach.rule == rule for breach in failure.breaches):
                again = Enumeration(plan).point(failure.point)
                assert again == failure, "a crash is the same when it is tried alone"
                return str(failure.point)
    return ""


@pytest.mark.slow
def test_crashes_of_a_short_workload_keep_every_promise() -> None:
    """Every ninth operation, and second cuts behind one of them; all with ``gantry crash-points``."""
    enumeration = Enumeration(replace(ENDS, chapters=("topics plain ends",)))
    found = Figures()
    for number in range(0, len(enumeration.played.cuts), 9):
        found.add(enumeration.cut(number))
    assert [(str(failure.point), *map(str, failure.breaches)) for failure in found.failures] == []
    assert found.points > 300
    middle = len(enumeration.played.cuts) // 2
    for operation in (5, 25):
        assert enumeration.point(Point(middle, 1, (operation, 0))) is None
        assert enumeration.point(Point.parse(f"{middle}:kill:{operation}:0")) is None
    assert found.opened < found.points, "disks that come again are not started again"


@pytest.mark.slow
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_what_waits_is_delivered_once_behind_every_crash(flush: str) -> None:
    """Some operations, and of each the states that a kill and a torn write leave; all with ``gantry crash-points``."""
    enumeration = Enumeration(replace(PLAINS, flush=flush, chapters=("topics delayed",)))
    found = Figures()
    for number in range(3, len(enumeration.played.cuts), 9):
        found.add(enumeration.cut(number))
    assert [(str(failure.point), *map(str, failure.breaches)) for failure in found.failures] == []
    assert found.points > 30


@pytest.mark.slow
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_what_waits_is_delivered_once_also_when_the_start_behind_a_crash_is_cut(flush: str) -> None:
    """A start must not move the position of ``gantry/delivered`` past copies that it has found and not counted yet.
    Crashes while timer messages are delivered, and a second one in each part of the start behind some of them."""
    effort = replace(PLAIN, kinds=(IN_ORDER,))
    plan = replace(PLAINS, flush=flush, chapters=("topics waiting",), effort=effort, again_every=100)
    enumeration = Enumeration(plan)
    found = Figures()
    operations = len(enumeration.played.cuts)
    for number in range(operations * 2 // 3, operations * 5 // 6, 5):
        found.add(enumeration.cut(number))
    assert [(str(failure.point), *map(str, failure.breaches)) for failure in found.failures] == []
    assert found.points > 1000


FULL = replace(PLAINS, chapters=("topics keeper roll full_disk",))


def on_a_full_disk(enumeration: Enumeration, every: int) -> Figures:
    """One of so many crashes while the disk is full, in few states each."""
    found = Figures()
    for number in [cut.number for cut in enumeration.played.cuts if cut.capacity is not None][::every]:
        found.add(enumeration.cut(number))
    return found


@pytest.mark.slow
def test_behind_a_crash_on_a_full_disk_everything_open_is_decided_and_messages_are_taken_again() -> None:
    """All of them with ``gantry crash-points``."""
    found = on_a_full_disk(Enumeration(FULL), 9)
    assert [(str(failure.point), *map(str, failure.breaches)) for failure in found.failures] == []
    assert found.points > 20


@pytest.mark.slow
@pytest.mark.pure("the broker is broken while it runs")
def test_a_start_that_decides_nothing_on_a_full_disk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    enumeration = Enumeration(FULL)
    assert enumeration.played.errors == []
    monkeypatch.setattr(room, "level_of", lambda facts, limit: (Level.NO_DECISIONS, Reason.RESERVE))
    found = on_a_full_disk(enumeration, 18)
    said = {breach.text for failure in found.failures for breach in failure.breaches}
    assert any("on a full disk keeper cannot be ended" in text for text in said), said


def nothing_is_found_again(patch: pytest.MonkeyPatch) -> None:
    """A start believes the cursors alone, as Apache's broker does."""
    patch.setattr(Lookup, "copies", lambda _self, _position: ())


def test_the_workload_holds_what_it_should() -> None:
    """All files are met: new ones of the log, queues and index, the decisions, offsets, and removals."""
    played = play("SYNC_FLUSH")
    assert played.errors == []
    done = " ".join(cut.done for cut in played.cuts)
    assert len(played.log) >= 4 and played.positions[-1].start > 0
    for part in ("gantry/decisions", "gantry/mark", "consumerOffset.json", "topics.json", "delayOffset.json",
                 "subscriptionGroup.json", "checkpoint", "/index/", "consumequeue/Orders/0/00000000000000000520",
                 "names in /store/commitlog"):  # fmt: skip
        assert part in done, part
    acknowledged = {half.acknowledged for half in expected_at(played.facts, len(played.cuts)).halves.values()}
    assert acknowledged == {COMMIT, ROLLBACK, PARK, ""}
    assert [cut.done for cut in play("SYNC_FLUSH").cuts] == [cut.done for cut in played.cuts]


def op_before_its_message(patch: pytest.MonkeyPatch) -> None:
    """The op message goes to the log first, in a write of its own."""
    append = MessageStore.append

    def apart(self: MessageStore, new: Sequence[NewRecord]) -> list[Placement]:
        if len(new) == 2 and new[1].topic == OP and new[0].topic != OP:
            ops = append(self, new[1:])
            self._writer.write_out()
            return append(self, new[:1]) + ops
        return append(self, new)

    patch.setattr(MessageStore, "append", apart)
    patch.setattr(transaction_endings, "append_commit", lambda *_arguments: None)  # the short way to the same


def answered_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    def tell(self: LogSafety, end: int, told: Told, item: object, late: object = None) -> None:
        self.when_written(end, partial(told, item))

    patch.setattr(LogSafety, "tell", tell)


def pairs_stay_torn(patch: pytest.MonkeyPatch) -> None:
    """Recovery does not look for final messages without an op message."""
    patch.setattr(rebuild, "_find_final_messages", lambda *_arguments: None)


def no_op_for_a_torn_pair(patch: pytest.MonkeyPatch) -> None:
    """Recovery knows the half as committed and does not write that down."""
    whole = rebuild.rebuild

    def without_ops(*arguments: Any, **more: Any) -> Any:
        found = whole(*arguments, **more)
        found.missing_ops.clear()
        return found

    patch.setattr(transaction_coordinator, "rebuild", without_ops)


class _LikeAny(int):
    """A checksum that is like any other."""

    def __and__(self, _other: int) -> _LikeAny:
        return self

    def __ne__(self, _other: object) -> bool:
        return False

    __eq__ = object.__eq__
    __hash__ = int.__hash__


def bodies_unchecked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(records, "crc32", lambda _data: _LikeAny())


def torn_properties_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "looks_torn", lambda _text: False)


def marked_without_a_sync(patch: pytest.MonkeyPatch) -> None:
    """The mark says that queues are durable, and nothing has made them so."""
    patch.setattr(DerivedWriter, "_sync_next", lambda _self, _rest, done: done(None))


def decisions_newer_than_the_log(patch: pytest.MonkeyPatch) -> None:
    """The file of decisions is believed, although a power cut took the tail of the log (hole 12)."""
    patch.setattr(rebuild, "_fits", lambda *_arguments: True)


def log_file_without_a_name(patch: pytest.MonkeyPatch) -> None:
    """A new file of the log is not made durable before records go into it."""
    create = Segment.create
    patch.setattr(Segment, "create", lambda self, *, durable: create(self, durable=False))


MUTATIONS: dict[Callable[[pytest.MonkeyPatch], None], tuple[str, Plan]] = {
    op_before_its_message: ("one outcome", ENDS),
    answered_before_the_sync: ("acknowledged is there", PLAINS),
    pairs_stay_torn: ("one outcome", replace(ENDS, sector_bytes=128)),
    no_op_for_a_torn_pair: ("one outcome", replace(ENDS, sector_bytes=128)),
    bodies_unchecked: ("the log is a beginning", replace(PLAINS, effort=MISSING)),
    torn_properties_believed: ("the log is a beginning", ENDS),
    marked_without_a_sync: ("queues, log and table agree", replace(PLAINS, chapters=("topics plain more",))),
    decisions_newer_than_the_log: (
        "one outcome",
        Plan("ASYNC_FLUSH", ("topics late",), effort=MISSING, again_every=0, kill_every=0),
    ),
    log_file_without_a_name: ("what was visible stays", PLAINS),
    nothing_is_found_again: ("stored once", replace(PLAINS, chapters=("topics delayed",))),
}
"""A broken broker, a rule it breaks, and crashes that show it."""
FILES: dict[object, str] = {marked_without_a_sync: "gantry/mark", decisions_newer_than_the_log: "gantry"}
"""Which operations they lie behind, if not behind those on the log."""


@pytest.mark.slow
@pytest.mark.pure("the broker is broken while it runs")
@pytest.mark.parametrize("break_it", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_a_broken_broker_is_found(
    break_it: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule, plan = MUTATIONS[break_it]
    break_it(monkeypatch)
    assert first_breach(plan, rule, FILES.get(break_it, "/commitlog"))
