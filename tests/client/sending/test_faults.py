"""The latency table of docs/protocol.md#slow-brokers, column 5.x."""

from __future__ import annotations

import pytest

from gantrymq.client.sending.faults import FaultTable, penalty_ms


@pytest.mark.parametrize(
    ("latency_ms", "avoid_ms"),
    [
        (0, 0), (49, 0), (50, 0), (100, 0), (549, 0), (550, 2000), (1799, 2000), (1800, 5000), (2999, 5000),
        (3000, 6000), (4999, 6000), (5000, 10_000), (14_999, 10_000), (15_000, 30_000), (10**9, 30_000),
    ],
)  # fmt: skip
def test_every_row(latency_ms: int, avoid_ms: int) -> None:
    assert penalty_ms(latency_ms) == avoid_ms


def test_slow_brokers_are_avoided_for_a_while() -> None:
    faults = FaultTable()
    assert not faults and faults.available("a", 0.0)
    faults.answered("a", 600, now=10.0)
    assert not faults.available("a", 11.9) and faults.available("a", 12.0) and faults.available("b", 10.0)


def test_a_quick_answer_ends_the_penalty() -> None:
    faults = FaultTable()
    faults.failed("a", now=10.0)
    assert not faults.available("a", 19.9)
    faults.answered("a", 5, now=11.0)
    assert faults.available("a", 11.0) and not faults
