"""The documentation site: every page is in its navigation, links are for both readers, and a broken link is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tools.website.contents import INDEX, ROOT, ROOT_PAGES, for_the_site, navigation, pages_in
from tools.website.links import broken_links, unreached

DOCS = ROOT / "docs"
KINDS = ("Start here", "How to", "Reference", "Explanation")


def known() -> list[str]:
    return list(pages_in(navigation(INDEX.read_text("utf-8"))))


def test_every_page_is_in_the_navigation() -> None:
    """docs/index.md is the index for readers of Markdown, and the navigation of the site is made from it."""
    here = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    here |= {place for name, place in ROOT_PAGES.items() if (ROOT / name).exists()}
    missing = sorted(here - set(known()))
    advice = [
        f"add docs/{page} to docs/index.md, as the line `* [Title]({page}): what it is about.` below one of "
        f"'## {KINDS[0]}', '## {KINDS[1]}', '## {KINDS[2]}' or '## {KINDS[3]}'; "
        "mkdocs.yml has no navigation of its own"
        for page in missing
    ]
    assert not missing, "\n".join(advice)
    assert sorted(known()) == sorted(set(known())), "docs/index.md names a page twice"


def test_the_index_names_pages_that_exist() -> None:
    there = {place: ROOT / name for name, place in ROOT_PAGES.items()}
    gone = [page for page in known() if not there.get(page, DOCS / page).is_file()]
    assert not gone, f"docs/index.md lists pages that do not exist: {gone}"


def test_the_navigation_has_the_four_kinds() -> None:
    assert [title for entry in navigation(INDEX.read_text("utf-8")) for title in entry] == ["Contents", *KINDS]


def test_every_item_of_the_index_says_what_its_page_is_about() -> None:
    items = [line for line in INDEX.read_text("utf-8").splitlines() if line.startswith(("* ", "- "))]
    assert len(items) == len(known()) - 1, "write each as `* [Title](page.md): what it is about.`"


def test_a_navigation_keeps_the_order_and_leaves_out_what_is_empty() -> None:
    text = "# Top\n\n## A\n\n* [One](one.md): 1.\n\n### B\n\n* [Two](x/two.md): 2.\n\n### C\n\n## D\n"
    assert navigation(text) == [{"Contents": "index.md"}, {"A": [{"One": "one.md"}, {"B": [{"Two": "x/two.md"}]}]}]


@pytest.mark.parametrize(
    "page, text, mended",
    [
        ("docs/a.md", "[b](b.md#c)", "[b](b.md#c)"),
        ("docs/a.md", "[map](../ARCHITECTURE.md#layers)", "[map](architecture.md#layers)"),
        ("docs/internals/a.md", "[map](../../ARCHITECTURE.md)", "[map](../architecture.md)"),
        ("docs/a.md", "[the code](../src/gantrymq/errors.py)", "the code (`src/gantrymq/errors.py`)"),
        ("docs/a.md", "[`run.py`](../run.py)", "`run.py`"),
        ("docs/a.md", "[home](../README.md)", "[home](index.md)"),
        ("ARCHITECTURE.md", "[d](docs/design.md)", "[d](design.md)"),
        ("CHANGELOG.md", "[s](SECURITY.md)", "[s](security-policy.md)"),
        ("docs/a.md", "[x](https://spark.apache.org/) [y](#z)", "[x](https://spark.apache.org/) [y](#z)"),
        ("docs/a.md", "```\n[b](../run.py)\n```", "```\n[b](../run.py)\n```"),
    ],
)
def test_links_lead_to_the_same_place_in_the_site(page: str, text: str, mended: str) -> None:
    assert for_the_site(text, page) == mended


def test_a_broken_link_an_unknown_anchor_and_a_lost_page_are_found(tmp_path: Path) -> None:
    def page(name: str, body: str) -> Path:
        (tmp_path / name).write_text(f"<html><body>{body}</body></html>")
        return tmp_path / name

    first = page("index.html", '<a href="a.html#here">a</a> <a href="https://www.apache.org/">out</a>')
    page("a.html", '<h2 id="here"></h2> <a href="gone.html">1</a> <a href="index.html#nowhere">2</a>')
    page("lost.html", "")
    assert broken_links(tmp_path) == [
        "a.html: there is no file for the link gone.html",
        "a.html: the link index.html#nowhere has an anchor that its page does not have",
    ]
    assert unreached(tmp_path, first) == ["lost.html: no link leads there"]


def test_pages_of_the_api_need_no_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their text is read from the sources: an import could need Spark, Django, or a compiler."""
    from mkdocs.config import load_config

    monkeypatch.chdir(ROOT)
    config: Any = load_config(str(ROOT / "mkdocs.yml"))
    python = config.plugins["mkdocstrings"].config["handlers"]["python"]
    assert python["paths"] == ["src"]
    assert python["options"]["allow_inspection"] is False
