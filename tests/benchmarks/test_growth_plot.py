"""The picture of how costs grow."""

from __future__ import annotations

from dataclasses import asdict
from xml.etree import ElementTree

from benchmarks.open_transactions import Figures

from benchmarks import growth_plot


def test_every_line_has_a_point_for_every_number() -> None:
    rows = [{name: value or 50.0 for name, value in asdict(Figures(number)).items()} for number in (1_000, 10_000)]
    picture = ElementTree.fromstring(growth_plot.draw(rows))
    lines = sum(len(panel.lines) for panel in growth_plot.PANELS)
    found = [element.get("points", "").split() for element in picture.iter() if element.tag.endswith("polyline")]
    assert [len(points) for points in found] == [2] * lines
