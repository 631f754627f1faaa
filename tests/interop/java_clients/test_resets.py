"""A group is sent back in time while it is online."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.interop.java_clients.conftest import Played, Server

SCENARIO = "Resets"


@pytest.mark.feature("push: offset reset")
def test_a_group_reads_again_from_a_time(played: Played, server: Server) -> None:
    # By their places: a client whose connection breaks sends again, and then the same body is there twice.
    counts = Counter(
        (entry["body"], entry["queueId"], entry["queueOffset"])
        for entries in played.got().values()
        for entry in entries
    )
    early, late = ({f"reset {i}" for i in some} for some in (range(8), range(8, 16)))
    assert {body for body, *_ in counts} == early | late
    assert {count for (body, *_), count in counts.items() if body in late} == {2}
    if server.version != "4.9.7":  # which takes the message nearest to a time, be it older
        assert {count for (body, *_), count in counts.items() if body in early} == {1}
    assert played.one("outcome", what="reset")["value"] == 4


def test_wrong_ones_are_refused(played: Played) -> None:
    assert len(played.steps("refused")) == 2
