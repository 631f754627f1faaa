"""Tags: some, several, all; two with one hash."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played

SCENARIO = "Filters"


def _tags(played: Played, who: str) -> list[str | None]:
    return [entry["tags"] for entry in played.steps("got", who=who)]


@pytest.mark.feature("filter: tags")
def test_a_group_gets_the_tags_it_wants(played: Played) -> None:
    assert _tags(played, "Aa") == ["Aa", "Aa"]
    assert sorted(map(str, _tags(played, "BB || 标签"))) == sorted(["BB", "标签"] * 2)
    assert sorted(map(str, _tags(played, "*"))) == sorted(["Aa", "BB", "标签", "TagX", "None"] * 2)
    assert _tags(played, "TagNobodyHas") == []
