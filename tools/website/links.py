"""The links of built pages: where they lead, and which pages they reach."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

NOT_A_PAGE: Final = frozenset({"404.html"})
"""Made by the theme; its links are meant for a web server."""


class _Page(HTMLParser):
    """The links and the anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {"", "__codelineno"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


@cache
def _read(path: Path) -> _Page:
    return _Page(path.read_text("utf-8"))


def pages(site: Path) -> list[Path]:
    return sorted(path for path in site.rglob("*.html") if path.relative_to(site).as_posix() not in NOT_A_PAGE)


def _targets(page: Path) -> list[tuple[str, Path, str]]:
    """Each link of a page into the site: as it is written, the file, the anchor."""
    found = []
    for link in _read(page).links:
        parts = urlsplit(link)
        if not parts.scheme and not parts.netloc:
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            found.append((link, path / "index.html" if path.is_dir() else path, unquote(parts.fragment)))
    return found


def broken_links(site: Path) -> list[str]:
    """A line for each link of a page that leads to no file, or to no anchor of its page."""
    wrong = []
    for page in pages(site):
        for link, path, anchor in _targets(page):
            if not path.is_file():
                wrong.append(f"{page.relative_to(site)}: there is no file for the link {link}")
            elif anchor and path.suffix == ".html" and anchor not in _read(path).anchors:
                wrong.append(f"{page.relative_to(site)}: the link {link} has an anchor that its page does not have")
    return wrong


def unreached(site: Path, first: Path) -> list[str]:
    """A line for each page that no chain of links from the first page reaches."""
    seen, todo = {first}, [first]
    while todo:
        for _, path, _ in _targets(todo.pop()):
            if path.suffix == ".html" and path.is_file() and path not in seen:
                seen.add(path)
                todo.append(path)
    return [f"{page.relative_to(site)}: no link leads there" for page in pages(site) if page not in seen]
