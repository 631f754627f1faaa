"""All pages that are made, and how the pages on the disk differ from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from . import api, commands, errors
from .marks import between_marks

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"


def pages() -> Iterator[tuple[Path, str]]:
    """The path of each page, and the text that it should have."""
    for name, made in (("commands.md", commands.page()), ("errors.md", errors.page())):
        yield DOCS / name, between_marks((DOCS / name).read_text("utf-8"), made)
    for module in api.MODULES:
        yield DOCS / api.path_of(module), api.page(module)


def stale() -> list[str]:
    """The pages whose text is another one than the code says, by their paths in the repository."""
    return [
        path.relative_to(DOCS.parent).as_posix()
        for path, text in pages()
        if not path.exists() or path.read_text("utf-8") != text
    ]


def write() -> None:
    for path, text in pages():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
