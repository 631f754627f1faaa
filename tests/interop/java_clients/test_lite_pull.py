"""The lite pull consumer: subscribe, assign, seek, pause, commit."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played, Server

SCENARIO = "LitePull"


def _keys(played: Played, who: str) -> list[str]:
    return sorted(entry["keys"] for entry in played.steps("got", who=who))


def _committed(played: Played, who: str) -> dict[int, int]:
    return {entry["queueId"]: entry["offset"] for entry in played.steps("committed", who=who)}


@pytest.mark.feature("pull: lite pull, seek", "filter: tags")
def test_subscribed_by_tag_and_committed(played: Played) -> None:
    assert _keys(played, "subscribed") == sorted(f"k{i}" for i in range(12))
    committed = _committed(played, "subscribed")
    assert all(offset >= 3 for offset in committed.values()) and len(committed) == 4


@pytest.mark.feature("pull: lite pull, seek")
def test_the_next_of_the_group_goes_on(played: Played) -> None:
    assert _keys(played, "goes on") == ["more"]


@pytest.mark.feature("pull: lite pull, seek")
def test_assigned_queues_are_read_from_wherever(played: Played, server: Server) -> None:
    sought = {entry["keys"]: entry["queueId"] for entry in played.steps("got", who="assigned")}
    assert set(sought.values()) == {0, 1} and len(sought) >= 8
    assert {entry["queueId"] for entry in played.steps("got", who="from the beginning")} == {0}
    assert {entry["queueId"] for entry in played.steps("got", who="paused")} == {0}
    assert {entry["queueId"] for entry in played.steps("got", who="resumed")} == {1}
    assert _keys(played, "at the end") == []
    if server.version != "4.9.7":  # which takes the message nearest to a time, be it older
        assert _keys(played, "from the middle") == ["k13", "k9"]
        assert played.one("offset", what="of the middle")["offset"] == 2


@pytest.mark.feature("pull: lite pull, seek")
def test_assigned_queues_are_committed(played: Played) -> None:
    assert _committed(played, "assigned").keys() == {0, 1}
