"""Lists of epochs: what is kept, and how far two logs are one by them."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.broker.replication.epochs import NO_EPOCH, Epoch, Epochs, common_end
from gantrymq.runtime.disk import OsDisk


def epochs(root: Path) -> Epochs:
    (root / "gantry").mkdir(exist_ok=True)
    return Epochs(OsDisk(), str(root / "gantry/epochs"))


def listed(of: Epochs) -> list[tuple[int, int]]:
    return [(epoch, start) for epoch, start in of.entries]


def test_they_are_there_after_a_restart_and_are_cut_with_the_log(tmp_path: Path) -> None:
    own = epochs(tmp_path)
    assert own.last == NO_EPOCH
    own.begin(1, 500, 100)
    assert listed(own) == [(1, 100)], "what was there before any epoch belongs to the first one"
    own.begin(3, 700, 100)
    own.begin(3, 900, 100)
    own.learn(3, 800)
    own.learn(4, 900)
    assert listed(epochs(tmp_path)) == listed(own) == [(1, 100), (3, 700), (4, 900)]
    own.cut(800)
    assert listed(epochs(tmp_path)) == [(1, 100), (3, 700)]
    own.take([Epoch(1, 100), Epoch(2, 600), Epoch(5, 900)], 800)
    assert listed(epochs(tmp_path)) == [(1, 100), (2, 600)]


def test_the_epoch_of_a_record_and_the_end_of_it(tmp_path: Path) -> None:
    own = epochs(tmp_path)
    for epoch, start in ((1, 0), (2, 50), (4, 50), (5, 90)):
        own.learn(epoch, start)
    assert own.at(0) == ((1, 0), 50)
    assert own.at(49) == ((1, 0), 50)
    assert own.at(50) == ((4, 50), 90), "the later one of two that began there has the records"
    assert own.at(90) == own.at(1000) == ((5, 90), None)


def test_where_two_logs_part() -> None:
    def common(own: list[tuple[int, int]], own_end: int, others: list[tuple[int, int]], end: int) -> int | None:
        return common_end([Epoch(*one) for one in own], own_end, [Epoch(*one) for one in others], end)

    assert common([(1, 0)], 80, [(1, 0)], 100) == 80
    assert common([(1, 0)], 120, [(1, 0), (2, 100)], 300) == 100, "this one was primary, and has a surplus"
    assert common([(1, 0), (2, 100)], 150, [(1, 0), (3, 90)], 300) == 90
    assert common([(1, 0), (2, 100)], 150, [(1, 0), (2, 100), (3, 120)], 300) == 120
    assert common([(1, 0)], 0, [(1, 0), (2, 0)], 10) == 0
    assert common([(4, 0)], 70, [(1, 0), (2, 100)], 300) is None
    assert common([], 70, [(1, 0)], 300) is None


OWNERS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8)


@given(OWNERS)
def test_the_lists_never_claim_more_than_the_logs_have_in_common(turns: list[tuple[int, int, int]]) -> None:
    """Three brokers; in each epoch one of them is primary, writes records, and one replica gets some of these."""
    logs: list[list[tuple[int, int]]] = [[], [], []]
    lists: list[list[Epoch]] = [[], [], []]
    for epoch, (leader, written, copied) in enumerate(turns, start=1):
        lists[leader].append(Epoch(epoch, len(logs[leader])))
        logs[leader] += [(epoch, number) for number in range(written)]
        follower = (leader + 1) % 3
        found = common_end(lists[follower], len(logs[follower]), lists[leader], len(logs[leader]))
        same = 0
        while same < min(map(len, (logs[leader], logs[follower]))) and logs[leader][same] == logs[follower][same]:
            same += 1
        if not logs[follower]:
            found = 0
        if found is None:
            continue
        assert found <= same
        end = max(found, min(len(logs[leader]), found + copied))
        logs[follower] = logs[leader][:end]
        lists[follower] = [one for one in lists[leader] if one.start <= end]
