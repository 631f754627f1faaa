"""Which connection is ended when connections take too much memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gantrymq.runtime.limits.bytes_in_flight import FREE_BYTES, BytesInFlight
from gantrymq.runtime.limits.refusals import Reason, Refusals
from gantrymq.runtime.limits.values import Limits
from tests.support.sim_clock import SimClock

MIB = 1 << 20


class Holding:
    """A connection."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.size = 0
        self.ended = False

    def bytes_in_flight(self) -> int:
        return self.size

    def cut_off(self) -> None:
        self.ended = True


def flight(total: int, of_client: int) -> tuple[BytesInFlight, Refusals]:
    refusals = Refusals(SimClock())
    return BytesInFlight(Limits(bytes_in_flight=total, bytes_in_flight_of_client=of_client), refusals), refusals


def grow(counted: BytesInFlight, holding: Holding, mebibytes: int) -> None:
    holding.size = mebibytes * MIB
    counted.note(holding, holding.size)


def test_what_was_read_meanwhile_does_not_count() -> None:
    counted, refusals = flight(total=12 * MIB, of_client=10 * MIB)
    reader, other = Holding("a:1"), Holding("a:2")
    grow(counted, reader, 8)
    reader.size = 0
    grow(counted, other, 9)
    assert not reader.ended and not other.ended and counted.total == 9 * MIB
    grow(counted, Holding("b:1"), 8)
    assert refusals.counts[Reason.BYTES] == 1 and other.ended


def test_the_largest_connection_of_a_client_is_ended_and_no_other_client_loses_one() -> None:
    counted, refusals = flight(total=0, of_client=10 * MIB)
    small, large, other = Holding("a:1"), Holding("a:2"), Holding("b:1")
    grow(counted, other, 9)
    grow(counted, large, 8)
    grow(counted, small, 3)
    assert large.ended and not small.ended and not other.ended
    assert counted.total == 12 * MIB and refusals.counts[Reason.BYTES] == 1
    counted.note(small, 0)
    counted.note(other, FREE_BYTES)
    counted.note(large, 0)  # it is told that it has ended; this is harmless
    assert counted.total == 0 and not counted._shares


def test_of_all_clients_the_one_with_the_most_loses_its_largest() -> None:
    counted, _ = flight(total=20 * MIB, of_client=0)
    many = [Holding(f"a:{number}") for number in range(12)]
    for holding in many:
        grow(counted, holding, 1)
    lonely = Holding("b:1")
    grow(counted, lonely, 9)
    assert sum(holding.ended for holding in many) == 1 and not lonely.ended
    assert counted.total == 20 * MIB


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=60),
    st.sampled_from([0, 3 * MIB]),
    st.sampled_from([0, 2 * MIB]),
)
def test_the_limits_hold_whatever_connections_do(steps: list[tuple[int, int]], total: int, of_client: int) -> None:
    counted, refusals = flight(total, of_client)
    all_ = [Holding(f"{host}:{number}") for host in "ab" for number in range(3)]
    for which, size in steps:
        holding = all_[which]
        if holding.ended:
            continue
        grow(counted, holding, size)
        left = [each for each in all_ if not each.ended]
        assert counted.total == sum(each.size for each in left)
        assert not total or counted.total <= total
        for host in "ab":
            assert not of_client or sum(each.size for each in left if each.peer.startswith(host)) <= of_client
    assert refusals.counts[Reason.BYTES] == sum(each.ended for each in all_)
    for each in all_:
        counted.note(each, 0)
    assert counted.total == 0 and not counted._shares
