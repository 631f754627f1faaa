"""Which deliveries are open and due, and which records are still needed."""

from __future__ import annotations

from gantrymq.broker.pop.check_point import Ack, CheckPoint
from gantrymq.broker.pop.ledger import Ledger


def point(start: int = 0, popped: int = 100, invisible: int = 50, count: int = 2) -> CheckPoint:
    return CheckPoint("T", "G", 0, start, popped, invisible, "b", tuple(range(count)))


def test_a_check_point_is_open_until_all_is_acknowledged() -> None:
    ledger = Ledger()
    ledger.open(0, 0, point())
    ledger.ack(Ack(point().key, (0,)))
    assert ledger.get(point().key) is not None
    ledger.ack(Ack(point().key, (1,)))
    assert (ledger.get(point().key), len(ledger), ledger.next_due()) == (None, 0, None)


def test_what_is_due_is_handed_out_once_and_again_when_that_failed() -> None:
    ledger = Ledger()
    ledger.open(0, 0, point(0))
    ledger.open(0, 1, point(10, invisible=20))
    assert ledger.next_due() == 120
    assert ledger.due(119, 10) == []
    (first,) = ledger.due(130, 10)
    assert (first.point.start_offset, ledger.due(130, 10)) == (10, [])
    ledger.postpone(first, 200)
    assert ledger.next_due() == 150
    assert [opened.point.start_offset for opened in ledger.due(200, 10)] == [0, 10]
    ledger.ack(Ack(first.point.key, (10, 11)))
    assert len(ledger) == 1


def test_no_more_is_handed_out_than_asked_for() -> None:
    ledger = Ledger()
    for number in range(10):
        ledger.open(0, number, point(10 * number, count=5))
    assert len(ledger.due(1000, 12)) == 3


def test_what_is_needed_of_a_revive_queue_ends_before_the_first_open_check_point() -> None:
    ledger = Ledger()
    assert ledger.committable(3) is None
    for number in range(3):
        ledger.open(3, 2 * number, point(10 * number))
    ledger.passed(3, 7)
    assert (ledger.committable(3), ledger.revive_queues()) == (-1, [3])
    ledger.ack(Ack(point(10).key, (10, 11)))
    assert ledger.committable(3) == -1
    ledger.ack(Ack(point(0).key, (0, 1)))
    assert ledger.committable(3) == 3
    ledger.ack(Ack(point(20).key, (20, 21)))
    assert ledger.committable(3) == 7


def test_a_record_that_was_not_written_is_forgotten() -> None:
    ledger = Ledger()
    opened = ledger.open(0, 0, point())
    ledger.forget(opened)
    assert (len(ledger), ledger.next_due(), ledger.due(1000, 10)) == (0, None, [])
    assert ledger.committable(0) is None, "another record gets its place, and that one is needed"


def test_an_acknowledgement_may_come_before_its_check_point() -> None:
    ledger = Ledger()
    ledger.ack(Ack(point().key, (0,)), keep=True)
    assert ledger.open(0, 0, point(), late=True).pending == {1}
    ledger.ack(Ack(point(10).key, (10,)))
    assert ledger.open(0, 1, point(10), late=True).pending == {10, 11}, "not kept unless asked for"


def test_an_early_acknowledgement_is_not_of_a_check_point_that_was_never_parked() -> None:
    ledger = Ledger()
    ledger.ack(Ack(point().key, (0,)), keep=True)
    assert ledger.open(0, 0, point()).pending == {0, 1}
    assert ledger.open(0, 1, point(), late=True).pending == {0, 1}, "it is forgotten"


def test_only_so_many_are_kept() -> None:
    ledger = Ledger(max_early=1)
    ledger.ack(Ack(point(0).key, (0, 1)), keep=True)
    ledger.ack(Ack(point(10).key, (10, 11)), keep=True)
    assert ledger.open(0, 0, point(0), late=True).pending == set()
    assert ledger.open(0, 1, point(10), late=True).pending == {10, 11}


def test_the_same_check_point_again_replaces_the_first() -> None:
    ledger = Ledger()
    ledger.open(0, 0, point())
    ledger.open(0, 5, point())
    assert (len(ledger), ledger.committable(0)) == (1, 4)
    assert len(ledger.due(1000, 10)) == 1


def test_a_prolonged_delivery_is_found_by_its_first_pop_while_it_is_open() -> None:
    ledger = Ledger()
    ledger.open(0, 0, point(count=3))
    before = CheckPoint("T", "G", 0, 1, 140, 50, "b", (0,), holder="c", first_pop=100)
    ledger.open(0, 1, before)
    ledger.ack(Ack(point().key, (1,)))
    first = ("T", "G", 0, 1, 100)
    opened = ledger.prolonged(*first)
    assert opened is not None and opened.point is before
    after = CheckPoint("T", "G", 0, 1, 180, 50, "b", (0,), holder="c", first_pop=100)
    ledger.open(0, 2, after)
    ledger.ack(Ack(before.key, (1,)))
    opened = ledger.prolonged(*first)
    assert opened is not None and opened.point is after, "the end of the one before leaves the newer one"
    ledger.ack(Ack(after.key, (1,)))
    assert ledger.prolonged(*first) is None
    assert ledger.prolonged("T", "G", 0, 0, 100) is None, "it was never prolonged"
