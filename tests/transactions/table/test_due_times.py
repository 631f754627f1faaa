"""What is due when, against a plain list."""

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.transactions.table import due_times
from gantrymq.transactions.table.due_times import DueTimes

PUSHES = st.lists(st.tuples(st.integers(0, 50), st.lists(st.integers(0, 20), max_size=3, unique=True)), max_size=200)


@given(PUSHES, st.integers(0, 60), st.integers(1, 300))
def test_due_keys_come_once_and_in_order_of_time(pushes: list[tuple[int, list[int]]], now: int, limit: int) -> None:
    current: dict[int, float] = {}
    due = DueTimes(lambda key, at: current.get(key) == at)
    for at, keys in pushes:
        current |= dict.fromkeys(keys, float(at))
        due.push(float(at), keys)
    expected = sorted(at for at in current.values() if at <= now)[:limit]
    got = []
    for key in due.pop_due(now, limit):
        got.append(current.pop(key))
    assert got == expected
    assert due.next_due() == min(current.values(), default=None)


def test_outdated_entries_do_not_pile_up() -> None:
    current: dict[int, float] = {}
    due = DueTimes(lambda key, at: current.get(key) == at)
    current[-1] = 0.5
    due.push(0.5, (-1,))  # the oldest one stays, so that nothing is dropped from the front
    for number in range(10 * due_times.PRUNE_FROM):
        due.push(1.0 + number, (number,))
        due.push(0.75, (number,))
    assert len(due) <= due_times.PRUNE_FROM
    assert due.next_due() == 0.5
