"""``docs/index.md`` as the navigation: its headings are the sections, the items of its lists are the pages."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
INDEX: Final = ROOT / "docs" / "index.md"

ROOT_PAGES: Final[Mapping[str, str]] = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
}
"""Pages in the root of the repository, where people look for them, and their names in the site."""

_HEADING = re.compile(r"(#{2,3}) (.+)")
_ITEM = re.compile(r"\* \[([^\]]+)\]\(([^)#]+)\): \S.*")
_LINK = re.compile(r"(?<!\\)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def navigation(index: str) -> list[dict[str, Any]]:
    """MkDocs' ``nav``, from the text of ``docs/index.md``. A section without a page is left out."""
    found: list[dict[str, Any]] = [{"Contents": "index.md"}]
    section: list[Any] = []
    sub: list[Any] | None = None
    for line in index.splitlines():
        if heading := _HEADING.fullmatch(line):
            if heading[1] == "##":
                section, sub = [], None
                found.append({heading[2]: section})
            else:
                sub = []
                section.append({heading[2]: sub})
        elif item := _ITEM.fullmatch(line):
            (section if sub is None else sub).append({item[1]: site_path(item[2])})
    return [entry for entry in map(_without_empty, found) if entry]


def _without_empty(entry: dict[str, Any]) -> dict[str, Any]:
    (title, inside), *_ = entry.items()
    if isinstance(inside, str):
        return entry
    kept = [one for one in map(_without_empty, inside) if one]
    return {title: kept} if kept else {}


def pages_in(nav: list[dict[str, Any]]) -> Iterator[str]:
    """The paths of all pages of a navigation, as the site has them."""
    for entry in nav:
        for inside in entry.values():
            if isinstance(inside, str):
                yield inside
            else:
                yield from pages_in(inside)


def site_path(link: str, page: str = "index.md") -> str:
    """Where a link of a page below ``docs/`` points in the site; pages in the root have other names there."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return path.removeprefix("docs/") if path.startswith("docs/") else ROOT_PAGES.get(path, path)


def for_the_site(text: str, page: str) -> str:
    """The text of a page (its path in the repository) with links that the site can follow.

    A link to a page of the root gets that page's name in the site. A link to any other file of the repository becomes
    the file's name: the site does not hold it.
    """
    in_site = page.removeprefix("docs/") if page.startswith("docs/") else ROOT_PAGES[page]

    def mend(link: re.Match[str]) -> str:
        words, target, anchor = link[1], link[2], link[3] or ""
        if not target or "://" in target:
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if path == "README.md":
            path = "docs/index.md"
        if path in ROOT_PAGES or path.startswith("docs/"):
            place = ROOT_PAGES.get(path, path.removeprefix("docs/"))
            return f"[{words}]({posixpath.relpath(place, posixpath.dirname(in_site) or '.')}{anchor})"
        return f"{words} (`{path}`)" if words.strip("`") != path else f"`{path}`"

    parts = re.split(r"(?ms)(^```.*?^```$)", text)
    return "".join(part if part.startswith("```") else _LINK.sub(mend, part) for part in parts)
