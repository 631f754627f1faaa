"""What is due when, against a plain list."""

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table import due_times
from gantrymq.transactions.table.decisions import DecisionLog
from gantrymq.transactions.table.due_times import DueTimes
from gantrymq.transactions.table.open_halves import OpenHalf, TransactionTable

PUSHES = st.lists(st.tuples(st.integers(0, 50), st.lists(st.integers(0, 20), max_size=3, unique=True)), max_size=200)


def half(key: int) -> OpenHalf:
    return OpenHalf(key, key * 100, "PG", f"U{key}", "Orders", 0, 0, 0, State.OPEN)


@given(PUSHES, st.integers(0, 60), st.integers(1, 300))
def test_due_keys_come_once_and_in_order_of_time(pushes: list[tuple[int, list[int]]], now: int, limit: int) -> None:
    table = TransactionTable(DecisionLog())
    due = DueTimes(table)
    for at, keys in pushes:
        for key in keys:
            if key not in table:
                table.add(half(key))
            waiting = table.get(key)
            assert waiting is not None
            waiting.due = float(at)
            due.push(float(at), key)
    expected = sorted(half.due for half in table if half.due <= now)[:limit]
    got = []
    for key in due.pop_due(now, limit):
        found = table.get(key)
        assert found is not None
        got.append(found.due)
        table.remove(found)
    assert got == expected
    assert due.next_due() == min((half.due for half in table), default=None)


def test_outdated_entries_do_not_pile_up() -> None:
    table = TransactionTable(DecisionLog())
    due = DueTimes(table)
    oldest = half(0)
    oldest.due = 0.5
    table.add(oldest)
    due.push(0.5, 0)  # the oldest one stays, so that nothing is dropped from the front
    for number in range(1, 10 * due_times.PRUNE_FROM):
        due.push(1.0 + number, number)
        due.push(0.75, number)
    assert len(due) <= due_times.PRUNE_FROM
    assert due.next_due() == 0.5
