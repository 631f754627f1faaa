"""Messages by id, key, unique key and time."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played, Server

SCENARIO = "Queries"


def _value(played: Played, what: str) -> object:
    return played.one("outcome", what=what)["value"]


@pytest.mark.feature("query: id, key, unique key")
def test_found(played: Played) -> None:
    assert _value(played, "offset id") == "query 0"
    assert _value(played, "unique key") == "query 1"
    assert _value(played, "by key common") == "query 0,query 1,query 2,query 3"
    assert _value(played, "by key q2") == "query 2"
    assert _value(played, "two of a key") == 2


@pytest.mark.feature("query: id, key, unique key")
def test_not_found(played: Played) -> None:
    for what in ("by key nothing", "key of another time", "wrong offset id", "absent unique key"):
        nothing = played.one("refused", what=what)
        assert nothing["code"] == 208 and "query message by key finished, but no message" in nothing["text"]


@pytest.mark.feature("query: id, key, unique key")
def test_offsets_by_time(played: Played, server: Server) -> None:
    offsets = {entry["what"]: entry["offset"] for entry in played.steps("offset")}
    end = 4
    assert (offsets["max"], offsets["at the second"]) == (end, 1)
    if server.version != "4.9.7":  # 4.9 takes the nearest one
        assert (offsets["just after the second"], offsets["just before the second"]) == (2, 1)
        assert offsets["in the future"] == end
    assert offsets["long ago"] <= 0
    assert _value(played, "earliest store time") is True
