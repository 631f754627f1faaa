"""Runs a program of a page, in a test that has the fixture ``gantry``."""

from __future__ import annotations

from typing import Any

from gantrymq.testing import LocalCluster

from .blocks import ROOT, Block


def run(block: Block, **names: Any) -> dict[str, Any]:
    """The names of a program behind its end. ``names`` are those that the page leaves to the reader."""
    space = {"__name__": "program", **names}
    exec(compile("\n" * (block.line - 1) + block.text, ROOT / block.page, "exec"), space)
    return space


def bodies(gantry: LocalCluster, topic: str) -> list[str]:
    return sorted(message.body.decode() for message in gantry.messages(topic))
