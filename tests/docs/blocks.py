"""The fenced blocks of the documents: page, line, language and text of each."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("*.md", "docs/**/*.md", "src/**/README.md", "examples/*/README.md")
FENCE = re.compile(r"(?ms)^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=indent)(?P=ticks) *$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. ``line`` is that of its first line of text, counted from 1."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line} ({self.language or 'no language'})"


@cache
def blocks() -> tuple[Block, ...]:
    found = []
    for path in sorted({path for place in PLACES for path in ROOT.glob(place)}):
        page = path.read_text("utf-8")
        for match in FENCE.finditer(page):
            line = page.count("\n", 0, match.start("text")) + 1
            text = textwrap.dedent(match["text"])
            found.append(Block(path.relative_to(ROOT).as_posix(), line, match["language"].strip(), text))
    return tuple(found)


def block_with(page: str, text: str) -> Block:
    """The one block of a page that has ``text`` in it."""
    (found,) = [block for block in blocks() if block.page == page and text in block.text]
    return found
