"""Where new groups begin."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played

SCENARIO = "Starts"
LATE = [f"late {i}" for i in range(8)]
ALL = sorted(LATE + [f"early {i}" for i in range(8)])


def _bodies(played: Played, who: str) -> list[str]:
    return sorted(entry["body"] for entry in played.steps("got", who=who))


@pytest.mark.feature("push: concurrent")
def test_from_the_first(played: Played) -> None:
    assert _bodies(played, "CONSUME_FROM_FIRST_OFFSET") == ALL


@pytest.mark.feature("push: concurrent")
def test_from_the_last_begins_with_the_first_of_a_young_topic(played: Played) -> None:
    assert _bodies(played, "CONSUME_FROM_LAST_OFFSET") == ALL


@pytest.mark.feature("push: concurrent")
def test_from_a_time(played: Played) -> None:
    assert _bodies(played, "CONSUME_FROM_TIMESTAMP") in (LATE, ALL)
