"""The port for producers, two below the broker's ("VIP channel")."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played, Server

SCENARIO = "FastPort"


@pytest.mark.feature("fast port")
def test_sends_and_transactions_through_the_fast_port(played: Played, server: Server) -> None:
    assert {entry["keys"] for entry in played.steps("got")} == {"check", "commit", "plain"}
    if server.kind != "Apache":  # see test_transactions.py
        assert len(played.steps("got")) == 3
        assert [entry["key"] for entry in played.steps("check")] == ["check"]
