from __future__ import annotations

import pytest

from gantrymq.errors import ConfigError, GantryError, RequestRejected, TimedOut, Unreachable
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.patience import LONGEST_PAUSE_S, Patience, may_pass
from tests.spark.fakes import SteppedClock


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (Unreachable("a:1", "refused"), True),
        (TimedOut("pull", 5), True),
        (RequestRejected(14, "starting"), True),
        (RequestRejected(2, "busy"), True),
        (RequestRejected(17, "no topic"), False),
        (ConfigError("bad"), False),
    ],
)
def test_what_may_pass(error: GantryError, passes: bool) -> None:
    assert may_pass(error) is passes


class Attempts:
    """Fails some times, then answers; notes when it was called."""

    def __init__(self, clock: SteppedClock, failures: int) -> None:
        self._clock = clock
        self._failures = failures
        self.at: list[float] = []

    def __call__(self) -> str:
        self.at.append(self._clock.now)
        if len(self.at) <= self._failures:
            raise Unreachable("a:1", f"attempt {len(self.at)}")
        return "answer"


def test_pauses_grow_up_to_a_limit() -> None:
    clock = SteppedClock()
    attempts = Attempts(clock, 12)
    assert Patience(60_000, clock, SystemRng(3)).call("asking", attempts) == "answer"
    pauses = [later - earlier for earlier, later in zip(attempts.at[:-1], attempts.at[1:], strict=True)]
    assert pauses[0] < 0.05
    assert max(pauses) <= 1.5 * LONGEST_PAUSE_S
    assert sum(pauses[-3:]) > sum(pauses[:3])


def test_the_time_is_bounded_and_the_last_error_is_told() -> None:
    clock = SteppedClock()
    attempts = Attempts(clock, 1_000_000)
    with pytest.raises(Unreachable, match=r"attempt \d+"):
        Patience(5_000, clock, SystemRng(3)).call("asking", attempts)
    assert clock.now - 1000 <= 5


def test_no_patience_is_one_attempt() -> None:
    clock = SteppedClock()
    attempts = Attempts(clock, 1)
    with pytest.raises(Unreachable):
        Patience(0, clock, SystemRng(3)).call("asking", attempts)
    assert len(attempts.at) == 1


def test_it_warns_now_and_then_and_not_at_each_attempt(caplog: pytest.LogCaptureFixture) -> None:
    clock = SteppedClock()
    with pytest.raises(Unreachable):
        Patience(25_000, clock, SystemRng(3)).call("asking", Attempts(clock, 1_000_000))
    assert 2 <= len(caplog.records) <= 3
    caplog.clear()
    Patience(25_000, clock, SystemRng(3)).call("asking", Attempts(clock, 4))
    assert not caplog.records, "a restart of a moment"


def test_a_broker_without_sql_is_not_asked_again() -> None:
    remark = "The broker does not support consumer to filter message by SQL92"
    assert not may_pass(RequestRejected(1, remark, request="pull", address="a:1"))
    assert may_pass(RequestRejected(1, "starting", request="pull", address="a:1"))
