"""The plan of failures: the same for the same seed, and with room for every kind."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gantrymq.demo.plan import (
    HANGING,
    KILLED,
    LEAST_HANGING,
    MAX_ORDERS,
    MIN_ORDERS,
    MOST_HANGING,
    PRODUCER_KILLS,
    Fate,
    make_plan,
)
from gantrymq.errors import ConfigError


@given(orders=st.integers(MIN_ORDERS, 3_000), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_every_kind_of_failure_is_in_every_plan(orders: int, seed: int) -> None:
    plan = make_plan(orders, seed)
    assert plan == make_plan(orders, seed)
    assert len(plan.fates) == orders
    assert plan.count(*KILLED) == PRODUCER_KILLS
    assert all(plan.count(fate) >= 1 for fate in Fate)
    assert plan.half_way < plan.broker_kill_at <= orders


def test_500_orders_have_more_than_20_check_backs_of_both_outcomes() -> None:
    plan = make_plan(500, 1)
    assert plan.count(*HANGING) >= LEAST_HANGING
    assert plan.count(Fate.HANGS_AFTER_COMMIT) == plan.count(Fate.HANGS_BEFORE_COMMIT) == 15
    assert plan.count(Fate.DECLINED) == 40
    assert plan.certain_checks == 15 + 15 + PRODUCER_KILLS


def test_another_seed_is_another_plan() -> None:
    assert make_plan(500, 1) != make_plan(500, 2)


def test_large_runs_kill_more_producers() -> None:
    plan = make_plan(20_000, 1)
    assert plan.count(*KILLED) == PRODUCER_KILLS + 4
    assert plan.count(*HANGING) == MOST_HANGING


@pytest.mark.parametrize("orders", [-1, 0, MIN_ORDERS - 1, MAX_ORDERS + 1])
def test_a_number_of_orders_that_cannot_be_is_refused(orders: int) -> None:
    with pytest.raises(ConfigError, match=f"{MIN_ORDERS} to {MAX_ORDERS}"):
        make_plan(orders, 1)
