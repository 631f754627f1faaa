"""Clients with a namespace."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played

SCENARIO = "Namespaces"


@pytest.mark.feature("namespace")
@pytest.mark.parametrize("space", ["north", "south"])
def test_a_namespace_is_on_its_own(played: Played, space: str) -> None:
    got = played.steps("got", who=space)
    assert [(entry["body"], entry["times"]) for entry in got] == [(f"for the {space}", 0), (f"for the {space}", 1)]
    assert {"%" in entry["topic"] for entry in got} == {False}, "clients do not see it"
    assert played.one("got", who=f"raw {space}")["topic"].startswith(f"{space}%")
