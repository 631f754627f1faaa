"""The port for producers, two below the broker's ("VIP channel")."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played

SCENARIO = "FastPort"


@pytest.mark.feature("fast port")
def test_sends_and_transactions_through_the_fast_port(played: Played) -> None:
    assert sorted(entry["keys"] for entry in played.steps("got")) == ["check", "commit", "plain"]
    assert [entry["key"] for entry in played.steps("check")] == ["check"]
