"""One byte per half message, and its file."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import RemoteProtocolError
from gantrymq.transactions.table.decisions import Coverage, Decision, DecisionLog

ENTRIES = st.dictionaries(st.integers(0, 6000), st.sampled_from([d for d in Decision if d is not Decision.NONE]))


@given(st.integers(0, 100), ENTRIES)
def test_it_is_a_dictionary_with_a_base(base: int, entries: dict[int, Decision]) -> None:
    log = DecisionLog(base)
    for offset, decision in entries.items():
        log[offset] = decision
    for offset in [*entries, 0, 6001, 10**9, -1]:
        expected = entries.get(offset, Decision.NONE) if offset >= base else Decision.NONE
        assert log[offset] is expected


@pytest.mark.slow
@given(st.integers(0, 100), ENTRIES, st.integers(0, 6500))
def test_the_undecided_are_those_without_an_entry(base: int, entries: dict[int, Decision], end: int) -> None:
    log = DecisionLog(base)
    for offset, decision in entries.items():
        log[offset] = decision
    assert log.undecided(end) == [offset for offset in range(base, end) if offset not in entries]


@pytest.mark.slow
@given(st.integers(0, 100), ENTRIES, st.integers(0, 200))
def test_retention_forgets_the_oldest(base: int, entries: dict[int, Decision], below: int) -> None:
    log = DecisionLog(base)
    for offset, decision in entries.items():
        log[offset] = decision
    log.forget_below(below)
    first = max(base, below)
    assert log.base == first
    assert all(log[offset] is (entries[offset] if offset >= first else Decision.NONE) for offset in entries)


@pytest.mark.slow
@given(st.integers(0, 100), ENTRIES, st.integers(0, 6500))
def test_the_file_round_trips(base: int, entries: dict[int, Decision], next_half: int) -> None:
    log = DecisionLog(base)
    for offset, decision in entries.items():
        log[offset] = decision
    coverage = Coverage(max(next_half, base), 7, 1 << 40, 123, -1)
    again, read = DecisionLog.decode(log.encode(coverage))
    assert read == coverage
    assert again.base == base
    assert [again[offset] for offset in range(base, next_half)] == [log[offset] for offset in range(base, next_half)]
    assert again[max(next_half, base)] is Decision.NONE


@given(st.binary(max_size=200))
def test_any_bytes_are_a_file_or_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        DecisionLog.decode(data)


@given(st.integers(0), st.integers(1, 255))
def test_a_damaged_file_is_refused(place: int, change: int) -> None:
    log = DecisionLog(5)
    log[6] = Decision.COMMITTED
    data = bytearray(log.encode(Coverage(8, 2, 500, 400, 450)))
    data[place % len(data)] ^= change
    with pytest.raises(RemoteProtocolError):
        DecisionLog.decode(bytes(data))


@pytest.mark.parametrize(
    ("flag", "decision"),
    [
        (0, Decision.SETTLED),
        (8, Decision.COMMITTED),
        (12, Decision.ROLLED_BACK),
        (4, Decision.PARKED),
        (2, Decision.SETTLED),
    ],
)
def test_an_op_tells_its_decision_by_its_flag(flag: int, decision: Decision) -> None:
    assert Decision.of_op(flag) is decision


def test_a_file_of_another_version_is_refused() -> None:
    data = DecisionLog().encode(Coverage())
    other = data[:7] + b"\x02" + data[8:-4]
    with pytest.raises(RemoteProtocolError, match="another version"):
        DecisionLog.decode(other + zlib.crc32(other).to_bytes(4, "big"))


@given(st.lists(st.integers(0, 40), min_size=1, unique=True), st.booleans(), st.integers(0, 20))
def test_several_decisions_at_once_are_those_of_each(offsets: list[int], neighbours: bool, base: int) -> None:
    if neighbours:
        offsets = list(range(offsets[0], offsets[0] + len(offsets)))
    together, one_by_one = DecisionLog(base), DecisionLog(base)
    together.decide(offsets, Decision.COMMITTED)
    for offset in offsets:
        one_by_one[offset] = Decision.COMMITTED
    assert [together[offset] for offset in range(99)] == [one_by_one[offset] for offset in range(99)]
    assert together.undecided(99) == one_by_one.undecided(99)
