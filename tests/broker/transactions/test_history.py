"""The journals of transactions: what is written, what a crash leaves, and that a broker can start without them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gantrymq.broker.refusal import Refusal
from gantrymq.broker.transactions.history import CLEAN_START, FIRST_START, KILLED_START, TransactionHistory
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.hosts import host_text
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.transactions.history.events import EndRefusal, EventKind, HistoryEvent, key_of
from gantrymq.transactions.table.decisions import Cause, Decision
from tests.broker.transaction_lab import DONE, HOST, TOPIC, Half, Lab, LabClient, LabClock

PLACE = (7, 4096)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path, check_max=2)
    yield lab
    lab.crash()


class Waits(LabClock):
    """A clock that stands still, for code that gives others a turn."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def known(history: TransactionHistory, *places: tuple[int, int]) -> list[HistoryEvent]:
    history._clock.sleep = Waits().sleep  # type: ignore[method-assign]
    return asyncio.run(history.of(places))


def of(lab: Lab, half: Half) -> list[HistoryEvent]:
    return [event for event in known(lab.coordinator.history, half.place) if event.key == key_of(*half.place)]


def kinds(lab: Lab, half: Half) -> list[EventKind]:
    return [event.kind for event in of(lab, half)]


def starts(lab: Lab) -> list[int]:
    return [event.detail for event in known(lab.coordinator.history) if event.kind is EventKind.STARTED]


def files(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((root / "gantry/history").iterdir())}


# What gets into them.


def test_a_transaction_that_goes_as_it_should_leaves_nothing(lab: Lab) -> None:
    lab.clock.advance(5)
    before = files(lab.root)
    producer = lab.online()
    for end in (lab.commit, lab.roll_back):
        half = lab.half(producer)
        assert end(producer, half).result is DONE
        assert kinds(lab, half) == []
    lab.clock.advance(60)
    assert files(lab.root) == before
    op = lab.ops()[0]
    assert (op.born_host, Cause.of_op(op.flag)) == (producer.address, Cause.PRODUCER), "its record says it"


def test_checks_and_their_answers_are_kept_with_whom_and_when(lab: Lab) -> None:
    producer = lab.online()
    half = lab.half(producer)
    asked_at = lab.clock.wall + 6_000
    lab.clock.advance(7)
    lab.end(producer, half, Resolution.UNKNOWN, check=True)
    lab.end(producer, half, Resolution.UNKNOWN, check=True)
    events = of(lab, half)
    assert [(event.kind, event.detail, event.number, event.peer) for event in events] == [
        (EventKind.CHECKED, 0, 1, producer.address),
        (EventKind.ANSWERED_UNKNOWN, 1, 0, producer.address),
        (EventKind.ANSWERED_UNKNOWN, 0, 0, producer.address),
    ]
    assert [event.time_ms for event in events] == [asked_at, asked_at + 1_000, asked_at + 1_000]
    lab.clock.advance(30)
    lab.end(producer, half, Resolution.COMMIT, check=True)
    assert [event.number for event in of(lab, half) if event.kind is EventKind.CHECKED] == [1, 2]
    op = lab.ops()[0]
    assert (op.born_host, Cause.of_op(op.flag)) == (producer.address, Cause.CHECK_ANSWER)


def test_who_is_gone_before_the_answer_is_named(lab: Lab) -> None:
    first = lab.online()
    half = lab.half(first)
    lab.clock.advance(7)
    lab.offline(first)
    second = lab.online()
    lab.clock.advance(2)
    found = [(event.kind, event.peer) for event in of(lab, half) if event.kind is not EventKind.NOBODY_ONLINE]
    assert found == [
        (EventKind.CHECKED, first.address),
        (EventKind.LEFT, first.address),
        (EventKind.CHECKED, second.address),
    ]


def test_a_half_that_nobody_can_be_asked_about_says_so_once(lab: Lab) -> None:
    half = lab.half()
    lab.clock.advance(300)
    assert kinds(lab, half) == [EventKind.NOBODY_ONLINE]


def test_ends_that_change_nothing_are_kept(lab: Lab) -> None:
    producer, stranger = lab.online(), LabClient("198.51.100.9:1")
    half = lab.half(producer)
    lab.end(producer, half, Resolution.UNKNOWN)
    assert lab.end(stranger, half, Resolution.COMMIT).refused
    assert lab.end(producer, half, Resolution.COMMIT, group="PG_other").refused
    del lab.topics[TOPIC]
    assert lab.end(producer, half, Resolution.COMMIT).result is Refusal.TOPIC_UNKNOWN
    lab.roll_back(producer, half)
    lab.roll_back(producer, half)
    assert lab.commit(producer, half).result is Refusal.CONFLICT
    commit, rollback, peer = Resolution.COMMIT, Resolution.ROLLBACK, producer.address
    assert [(event.kind, event.detail, event.number, event.peer) for event in of(lab, half)] == [
        (EventKind.SAID_UNKNOWN, 0, 0, peer),
        (EventKind.REFUSED, commit, EndRefusal.STRANGER, stranger.address),
        (EventKind.REFUSED, commit, EndRefusal.WRONG_GROUP, peer),
        (EventKind.REFUSED, commit, EndRefusal.TOPIC_GONE, peer),
        (EventKind.REPEATED, rollback, 0, peer),
        (EventKind.CONFLICT, commit, 0, peer),
    ]


def test_an_end_that_names_nothing_is_nobodys_event(lab: Lab) -> None:
    producer = lab.online()
    half = lab.half(producer)
    assert lab.end(producer, half, Resolution.COMMIT, place=(half.place[0], 999)).refused
    assert kinds(lab, half) == []


def test_a_retried_send_is_an_event_of_the_half_it_joined(lab: Lab) -> None:
    half = lab.half(key="K1")
    lab.half(key="K1")
    assert [(event.kind, event.peer) for event in of(lab, half)] == [(EventKind.JOINED, host_text(HOST))]


def test_a_decision_that_the_disk_refused_is_an_event(lab: Lab) -> None:
    producer = lab.online()
    half = lab.half(producer)
    lab.disk.full = True
    lab.commit(producer, half)
    lab.clock.advance(5)
    lab.disk.full = False
    assert [(event.kind, event.detail) for event in of(lab, half)] == [(EventKind.FAILED, Decision.COMMITTED)]
    lab.clock.advance(60)


def test_parking_says_why_and_resuming_says_who(lab: Lab) -> None:
    producer = lab.online()
    half = lab.half(producer)
    for _ in range(2):
        lab.clock.advance(30)
        lab.end(producer, half, Resolution.UNKNOWN, check=True)
    lab.clock.advance(31)
    assert Cause.of_op(lab.ops()[0].flag) is Cause.UNKNOWN_ANSWERS
    assert lab.commit(producer, half).result is Refusal.CONFLICT
    assert kinds(lab, half)[-1] is EventKind.CONFLICT


def test_an_operator_is_named_by_the_op_itself(lab: Lab) -> None:
    producer = lab.online()
    half = lab.half(producer)
    lab.end(producer, half, Resolution.ROLLBACK, check=True, operator="ann@coordinator: ticket 7")
    op = lab.ops()[0]
    assert Cause.of_op(op.flag) is Cause.OPERATOR and "ann@coordinator: ticket 7" in op.properties_text
    lab.crash()
    lab.open()
    assert lab.coordinator.table.decisions[half.place[0]] is Decision.ROLLED_BACK, "the cause hides no decision"


# What a stop and a crash leave.


def test_events_outlive_an_orderly_stop(lab: Lab) -> None:
    half = lab.half()
    lab.clock.advance(6)
    lab.coordinator.close()
    lab.crash()
    lab.open()
    assert kinds(lab, half)[0] is EventKind.NOBODY_ONLINE
    assert starts(lab) == [FIRST_START, CLEAN_START]


def test_a_killed_broker_loses_its_last_second_and_the_next_one_says_so(lab: Lab) -> None:
    producer = lab.online()
    half = lab.half(producer)
    lab.end(producer, half, Resolution.UNKNOWN)
    lab.clock.advance(1.1)
    lab.end(producer, half, Resolution.UNKNOWN)
    lab.clock.advance(0.9)
    assert kinds(lab, half) == [EventKind.SAID_UNKNOWN] * 2, "what waits in memory is known as well"
    lab.crash()
    lab.open()
    assert kinds(lab, half) == [EventKind.SAID_UNKNOWN]
    assert starts(lab) == [FIRST_START, KILLED_START]


def test_without_the_journals_nothing_is_lost_but_history(lab: Lab) -> None:
    producer = lab.online()
    half = lab.half(producer)
    lab.clock.advance(10)
    lab.crash()
    for path in (lab.root / "gantry/history").iterdir():
        path.unlink()
    lab.open()
    assert kinds(lab, half)[:1] in ([], [EventKind.CHECKED])
    assert starts(lab) == [FIRST_START]
    assert lab.commit(producer, half).result is DONE


def test_journals_that_cannot_be_written_keep_nobody_from_working(tmp_path: Path) -> None:
    (tmp_path / "gantry").mkdir()
    (tmp_path / "gantry/history").write_text("not a directory")
    lab = Lab(tmp_path)
    producer = lab.online()
    half = lab.half(producer)
    lab.clock.advance(10)
    assert lab.commit(producer, half).result is DONE
    assert EventKind.CHECKED in kinds(lab, half), "from memory"
    lab.coordinator.close()
    lab.crash()


# The files.


def history_on(disk: SimDisk, clock: LabClock | None = None, **limits: int) -> TransactionHistory:
    made = TransactionHistory(disk, clock or Waits(), "/store/gantry/history", **limits)
    made.start()
    return made


def test_a_full_journal_begins_anew_and_keeps_the_one_before() -> None:
    clock, disk = Waits(), SimDisk(1)
    history = history_on(disk, clock, file_max_bytes=3_000)
    for number in range(500):
        history.note(EventKind.REPEATED, PLACE, number=number, peer="192.0.2.1:1")
        clock.advance(1.1)
    numbers = [event.number for event in known(history, PLACE) if event.kind is EventKind.REPEATED]
    assert numbers == list(range(numbers[0], 500)) and 100 <= len(numbers) <= 200, "the newest, without a gap"
    assert history.since_ms is not None and history.since_ms <= clock.wall - len(numbers) * 1_100
    assert sum(disk.size(f"/store/gantry/history/{name}") for name in ("events", "events.old")) <= 6_000


def test_checks_take_nothing_away_but_checks(lab: Lab) -> None:
    lab.coordinator.history._checks._max_bytes = 300
    producer = lab.online()
    half = lab.half(producer)
    lab.end(producer, half, Resolution.UNKNOWN)
    for _ in range(60):
        lab.clock.advance(30)
    found = kinds(lab, half)
    assert found[0] is EventKind.SAID_UNKNOWN and 10 <= found.count(EventKind.CHECKED) <= 20


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 1_500)), max_size=15), st.integers(0, 1 << 20), st.binary())
def test_a_power_cut_leaves_a_journal_that_goes_on(steps: list[tuple[int, int]], seed: int, foreign: bytes) -> None:
    """Whatever of the writes made it, and whatever else is in the file: what is found was written, in order."""
    clock, disk = Waits(), SimDisk(seed)
    history = history_on(disk, clock)
    written: list[int] = []
    for count, wait_ms in steps:
        for _ in range(count):
            written.append(len(written))
            history.note(EventKind.REPEATED, PLACE, number=written[-1])
        clock.advance(wait_ms / 1000)
    disk = disk.power_cut()
    if disk.exists("/store/gantry/history/events"):
        file = disk.open("/store/gantry/history/events")
        file.write(foreign, file.size())
        file.close()
    after = history_on(disk, clock)
    after.note(EventKind.REPEATED, PLACE, number=60_000)
    after.close()
    numbers = [event.number for event in known(history_on(disk, clock), PLACE) if event.kind is EventKind.REPEATED]
    assert numbers[-1] == 60_000
    assert numbers[:-1] == sorted(set(numbers[:-1]) & set(written))


def test_a_disk_that_takes_nothing_costs_the_oldest_events() -> None:
    history = TransactionHistory(SimDisk(1), Waits(), "/store/gantry/history", waiting_max_bytes=200)
    history._disk.make_dirs("/store/gantry", durable=False)
    for number in range(20):
        history.note(EventKind.REPEATED, PLACE, number=number)
    assert history.lost
    assert known(history, PLACE)[-1].number == 19
