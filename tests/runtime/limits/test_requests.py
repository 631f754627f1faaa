"""How many requests a client may send."""

from __future__ import annotations

from gantrymq.runtime.limits.requests import LONGEST_REST_SECONDS, REST_SECONDS, RequestRates
from gantrymq.runtime.limits.values import Limits
from gantrymq.testing.local.clock import VirtualClock


def rates(per_second: int) -> tuple[RequestRates, VirtualClock]:
    clock = VirtualClock(0, lambda: None)
    return RequestRates(Limits(requests_per_second=per_second), clock), clock


def test_a_client_may_send_the_requests_of_a_second_at_once_and_then_as_many_as_time_brings() -> None:
    every, clock = rates(10)
    one = every.of("a")
    assert [one.take() for _ in range(12)] == [True] * 10 + [False] * 2
    clock.move_to(0.35)
    assert [every.of("a").take() for _ in range(5)] == [True] * 3 + [False] * 2
    assert every.of("b").take(), "another client has its own"
    clock.move_to(100)
    assert sum(one.take() for _ in range(30)) == 10, "what was not used is not saved up"


def test_who_owes_rests_until_it_has_paid() -> None:
    every, clock = rates(10)
    one = every.of("a")
    while one.take():
        pass
    assert one.rest_seconds() == REST_SECONDS
    for _ in range(5):
        one.owe()
    assert abs(one.rest_seconds() - 0.6) < 1e-9
    for _ in range(1000):
        one.owe()
    assert one.rest_seconds() == LONGEST_REST_SECONDS
    clock.move_to(1000)
    assert one.rest_seconds() == 0.0 and one.take()


def test_the_limit_may_change_and_clients_that_are_gone_are_forgotten() -> None:
    every, clock = rates(1)
    busy = every.of("busy")
    busy.take()
    for number in range(9_999):
        every.of(str(number))
    assert len(every._of_client) == 10_000
    assert every.of("new") is every.of("new") and every.of("busy") is busy
    for number in range(5_000):
        every.of(f"later {number}").take()
    assert every.of("busy") is busy, "who has not paid is remembered"
    assert len(every._of_client) < 10_001, "and idle ones make room"
    every.per_second = 3
    clock.move_to(10)
    assert [busy.take() for _ in range(4)] == [True, True, True, False]


class CountingClock(VirtualClock):
    """Counts how often it is read: once for each allowance that is made or looked at."""

    reads = 0

    def monotonic(self) -> float:
        self.reads += 1
        return super().monotonic()


def test_a_new_client_costs_the_same_however_many_busy_ones_are_remembered() -> None:
    clock = CountingClock(0, lambda: None)
    every = RequestRates(Limits(requests_per_second=1), clock)
    most = 0
    for number in range(12_000):  # all of them at the same moment, so nobody can be forgotten
        before = clock.reads
        assert every.of(str(number)).take()
        most = max(most, clock.reads - before)
    assert len(every._of_client) == 12_000 and most <= 8
    clock.move_to(10)
    for number in range(2_000):
        every.of(f"later {number}")
    assert len(every._of_client) <= 10_000, "when they are idle, they are forgotten by and by"
    clock.move_to(20)
    for number in range(10_000):
        every.of(f"last {number}")
    assert len(every._of_client) <= 10_000
