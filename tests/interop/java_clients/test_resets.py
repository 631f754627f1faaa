"""A group is sent back in time while it is online."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played

SCENARIO = "Resets"


@pytest.mark.feature("push: offset reset")
def test_a_group_reads_again_from_a_time(played: Played) -> None:
    got = played.got()
    assert {body: len(entries) for body, entries in got.items()} == {f"reset {i}": 1 if i < 8 else 2 for i in range(16)}
    assert played.one("outcome", what="reset")["value"] == 4


def test_wrong_ones_are_refused(played: Played) -> None:
    assert len(played.steps("refused")) == 2
