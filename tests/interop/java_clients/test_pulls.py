"""The plain pull consumer: what each position answers."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played, Server

SCENARIO = "Pulls"


def _pulled(played: Played, what: str) -> tuple[object, ...]:
    entry = played.one("pulled", what=what)
    return entry["status"], entry["keys"], entry["next"]


@pytest.mark.feature("pull: pull consumer")
def test_what_is_found(played: Played) -> None:
    assert _pulled(played, "all") == ("FOUND", "k0 k1 k2 k3 k4 k5", 6)
    assert _pulled(played, "three") == ("FOUND", "k0 k1 k2", 3)
    assert _pulled(played, "by tag") == ("FOUND", "k1 k3 k5", 6)


@pytest.mark.feature("pull: pull consumer")
def test_what_is_not_found(played: Played) -> None:
    assert _pulled(played, "no such tag") == ("NO_MATCHED_MSG", "", 6)
    assert _pulled(played, "at the end") == ("NO_NEW_MSG", "", 6)
    assert _pulled(played, "beyond the end") == ("OFFSET_ILLEGAL", "", 6)


@pytest.mark.feature("pull: pull consumer")
def test_a_pull_waits_for_a_message(played: Played) -> None:
    later = [(entry["status"], entry["keys"], entry["next"]) for entry in played.steps("pulled", what="later")]
    assert later == [("FOUND", "k1 k3 k5", 6), ("FOUND", "k6", 7)]


@pytest.mark.feature("pull: pull consumer")
def test_offsets_of_the_group(played: Played) -> None:
    assert played.one("offset", what="none")["offset"] in (-1, 0)
    assert played.one("bounds") | {"scenario": ""} == {
        "step": "bounds", "scenario": "", "min": 0, "count": 7, "earliest": True,
    }  # fmt: skip


def test_wrong_places_are_refused(played: Played, server: Server) -> None:
    nowhere = played.one("refused", what="queue that is not there")
    assert nowhere["code"] == (1 if server.version == "4.9.7" else 29)
    assert "is illegal" in nowhere["text"]
    assert played.one("refused", what="topic that is not there")["code"] == 17
