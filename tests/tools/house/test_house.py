"""Circles of imports are found wherever they hide, and there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import house


@pytest.fixture(scope="module")
def drawn() -> house.Arrows:
    return house.arrows()


def test_no_circle_of_imports(drawn: house.Arrows) -> None:
    assert house.circles(drawn) == []


def test_no_arrow_points_up(drawn: house.Arrows) -> None:
    assert house.arrows_up(drawn, house.layers()) == []


def test_an_arrow_up_or_to_the_side_is_found() -> None:
    drawn = {"p.low.a": frozenset({"p.high.b", "p.low.c"}), "p.high.b": frozenset({"p.low.a", "p.beside"})}
    places = {"high": 0, "beside": 0, "low": 1}
    assert house.arrows_up(drawn, places) == ["p.high.b -> p.beside", "p.low.a -> p.high.b"]


def test_the_broker_names_no_door(drawn: house.Arrows) -> None:
    assert house.doors_named(drawn) == []


def test_rules_import_protocol_only_for_what_is_also_the_disk_format(drawn: house.Arrows) -> None:
    assert house.beyond_the_disk(drawn) == []
    drawn = dict(drawn)
    drawn["gantrymq.broker.pop.acks"] |= {"gantrymq.protocol.bodies.pop", "gantrymq.protocol.files.topics"}
    assert house.beyond_the_disk(drawn) == ["gantrymq.broker.pop.acks -> gantrymq.protocol.bodies.pop"]


@pytest.mark.parametrize(
    "back",
    [
        "import p.a",
        "from p import a",
        "from p.a import x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import x",
        "def late() -> None:\n    from p import a",
        "from importlib import import_module\nimport_module('p.a')",
        "from importlib import import_module\nHOMES = {'x': 'a'}\ndef find(home):\n    import_module(f'p.{home}')",
    ],
)
def test_each_kind_of_arrow_closes_a_circle(back: str, tmp_path: Path) -> None:
    package = tmp_path / "p"
    package.mkdir()
    for name, text in {"__init__": "", "a": "from p import b", "b": back}.items():
        (package / f"{name}.py").write_text(text + "\n")
    assert house.circles(house.arrows(tmp_path)) == [["p.a", "p.b"]]
    (package / "b.py").write_text("x = 1\n")
    assert house.circles(house.arrows(tmp_path)) == []
