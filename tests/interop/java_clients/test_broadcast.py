"""Broadcasting groups."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played

SCENARIO = "Broadcast"


@pytest.mark.feature("push: broadcast")
def test_every_member_gets_everything_once(played: Played) -> None:
    expected = sorted(f"{when} {i}" for when in ("early", "live") for i in range(4))
    for who in ("one", "two"):
        assert sorted(entry["body"] for entry in played.steps("got", who=who)) == expected
