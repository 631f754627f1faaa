"""What MkDocs calls while it builds the site (``hooks`` in mkdocs.yml)."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
contents = import_module("tools.website.contents")  # MkDocs loads this file alone, outside of its package


def github_anchor(title: str, separator: str) -> str:
    """The anchor of a heading, as GitHub makes it, so that a link works in both."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", separator)


def on_config(config: Any) -> Any:
    config.nav = contents.navigation(contents.INDEX.read_text("utf-8"))
    config.mdx_configs.setdefault("toc", {})["slugify"] = github_anchor
    return config


def on_files(files: Any, config: Any) -> Any:
    """The pages of the root, which lie outside ``docs/``."""
    for name, place in contents.ROOT_PAGES.items():
        if (contents.ROOT / name).exists():
            files.append(
                File.generated(
                    config, place, content=contents.for_the_site((contents.ROOT / name).read_text("utf-8"), name)
                )
            )
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.src_uri in contents.ROOT_PAGES.values():
        return markdown
    return str(contents.for_the_site(markdown, f"docs/{page.file.src_uri}"))
