"""Members of a group come and go."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played

SCENARIO = "Members"


@pytest.mark.feature("push: rebalance")
def test_queues_are_shared_by_whoever_is_there(played: Played) -> None:
    assert [entry["what"] for entry in played.steps("reached")] == ["three", "two", "all consumed", "one"]


@pytest.mark.feature("push: rebalance")
def test_nothing_is_lost(played: Played) -> None:
    assert {entry["keys"] for entry in played.steps("got")} == {"first", *(f"k{i}" for i in range(8))}
