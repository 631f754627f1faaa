"""The table of open transactions."""

from __future__ import annotations

import pytest

from gantrymq.errors import InvariantViolated
from gantrymq.transactions.rules.states import Event, State
from gantrymq.transactions.table.decisions import Decision, DecisionLog
from gantrymq.transactions.table.open_halves import KEPT_RECORDS_BYTES, RECORD_BYTES, OpenHalf, TransactionTable


def half(queue_offset: int, key: str = "", *copies: int) -> OpenHalf:
    made = OpenHalf(queue_offset, 1000 + queue_offset, "PG", key, "Orders", 0, 5, 6000, State.OPEN)
    made.copies = tuple((copy, 1000 + copy) for copy in copies)
    return made


@pytest.fixture
def table() -> TransactionTable:
    return TransactionTable(DecisionLog())


def test_a_half_is_found_by_both_offsets_of_any_copy_and_by_nothing_else(table: TransactionTable) -> None:
    known = half(2, "K", 8, 9)
    table.add(known)
    assert [table.at(offset, 1000 + offset) for offset in (2, 8, 9)] == [known] * 3
    assert table.at(2, 1008) is None
    assert table.at(8, 1009) is None
    assert table.at(3, 1003) is None
    assert known.queue_offsets() == [2, 8, 9]
    assert known.newest() == (9, 1009)


def test_the_end_of_a_half_is_remembered_for_every_copy(table: TransactionTable) -> None:
    known = half(2, "K", 8)
    table.add(known, bytes(10))
    table.end(known, Decision.COMMITTED)
    assert len(table) == 0
    assert [table.decisions[offset] for offset in (2, 8)] == [Decision.COMMITTED] * 2
    assert table.at(2, 1002) is None
    assert table.at(8, 1008) is None
    assert known.record is None


def test_a_half_enters_once(table: TransactionTable) -> None:
    table.add(half(1))
    with pytest.raises(InvariantViolated):
        table.add(half(1))


@pytest.mark.parametrize("state", State)
def test_only_an_undecided_half_is_joined(table: TransactionTable, state: State) -> None:
    known = half(1, "K")
    known.state = state
    table.add(known)
    assert table.to_join("PG", "K") is (known if state in (State.STORING, State.UNCONFIRMED, State.OPEN) else None)
    assert table.to_join("other", "K") is None
    assert table.to_join("PG", "") is None


def test_a_key_belongs_to_the_newest_half_that_uses_it(table: TransactionTable) -> None:
    first, second = half(1, "K"), half(2, "K")
    first.state = State.COMMITTING
    table.add(first)
    table.add(second)
    assert table.to_join("PG", "K") is second
    table.end(first, Decision.COMMITTED)
    assert table.to_join("PG", "K") is second
    table.end(second, Decision.ROLLED_BACK)
    assert table.to_join("PG", "K") is None


def test_memory_for_records_is_limited_and_belongs_to_the_newest(table: TransactionTable) -> None:
    """Halves that stay open must not take the memory from those that are committed soon (flat cost per commit)."""
    size = KEPT_RECORDS_BYTES // 2
    halves = [half(number) for number in range(6)]
    kept = []
    for known in halves:
        table.add(known, bytes(size))
        kept.append([number for number, other in enumerate(halves) if other.record is not None])
    assert kept == [[0], [0, 1], [0, 1, 2], [2, 3], [2, 3, 4], [4, 5]]
    table.end(halves[5], Decision.COMMITTED)
    assert halves[5].record is None


def test_small_records_count_too(table: TransactionTable) -> None:
    count = 3 * KEPT_RECORDS_BYTES // RECORD_BYTES
    for number in range(count):
        table.add(half(number), b"")
    assert sum(known.record is not None for known in table) <= 2 * KEPT_RECORDS_BYTES // RECORD_BYTES + 1


def test_names_of_groups_and_topics_are_shared(table: TransactionTable) -> None:
    first, second = half(1, "K"), half(2, "L")
    second.group, second.real_topic = "".join(["P", "G"]), "".join(["Ord", "ers"])
    table.add(first)
    table.add(second)
    assert first.group is second.group
    assert first.real_topic is second.real_topic


def test_an_apache_broker_starts_at_the_newest_copy_of_the_oldest_half(table: TransactionTable) -> None:
    assert table.first_needed(20) == 20
    copied, single = half(2, "", 8, 9), half(5)
    table.add(copied)
    assert table.first_needed(20) == 9
    table.add(single)
    assert table.first_needed(20) == 5
    oldest = table.oldest()
    assert oldest is copied


def test_a_half_goes_its_way_by_the_table_of_states() -> None:
    known = half(1)
    known.take(Event.COMMIT)
    with pytest.raises(InvariantViolated):
        known.take(Event.ROLLBACK)


def test_halves_are_counted_by_topic_and_by_group(table: TransactionTable) -> None:
    with_key, without_key, other = half(1, "K"), half(2), half(3, "L")
    other.real_topic, other.group = "Payments", "PG2"
    for each in (with_key, without_key, other):
        table.add(each)
    assert table.by_topic() == {"Orders": 2, "Payments": 1}
    assert table.by_group() == {"PG": 2, "PG2": 1}
    table.end(without_key, Decision.COMMITTED)
    table.remove(other)
    assert table.by_topic() == {"Orders": 1, "Payments": 0}
    assert table.by_group() == {"PG": 1}
