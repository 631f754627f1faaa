"""A group is sent back in time while it is online."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played, Server

SCENARIO = "Resets"


@pytest.mark.feature("push: offset reset")
def test_a_group_reads_again_from_a_time(played: Played, server: Server) -> None:
    counts = {body: len(entries) for body, entries in played.got().items()}
    assert counts.keys() == {f"reset {i}" for i in range(16)}
    assert {counts[f"reset {i}"] for i in range(8, 16)} == {2}
    if server.version != "4.9.7":  # which takes the message nearest to a time, be it older
        assert {counts[f"reset {i}"] for i in range(8)} == {1}
    assert played.one("outcome", what="reset")["value"] == 4


def test_wrong_ones_are_refused(played: Played) -> None:
    assert len(played.steps("refused")) == 2
