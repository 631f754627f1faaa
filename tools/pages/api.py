"""``docs/api/``: a page for each public module. The site fills in signatures and docstrings, read from the sources.

The table on each page has the first sentence of every docstring, for people who read the page as plain Markdown.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from .marks import cell

MODULES: Final[Mapping[str, str]] = {
    "gantrymq": "The blocking client: producers, consumers, messages, tools. `aio` has the same names for asyncio.",
    "gantrymq.aio": "The asyncio client. Every name works as in `gantrymq`, with `await` and `async with`.",
    "gantrymq.sql": "[A row and its messages](../sql.md), together, and [the inbox](../inbox.md) of consumers.",
    "gantrymq.django": "For Django projects: [Django](../django.md) explains it.",
    "gantrymq.spark": "[Read](../spark.md), [write](../spark-sink.md), run [pipelines](../pipelines.md) with Spark.",
    "gantrymq.testing": "A whole cluster inside the process of a test: [tests](../testing.md) explains it.",
    "gantrymq.tracing": "Which tracer provider clients use: [traces](../tracing.md) explains it.",
    "gantrymq.metrics": "What the clients of a process count: [metrics](../metrics.md) lists it.",
}
"""The public modules, in the order of the navigation, each with what its page says first."""


def path_of(module: str) -> str:
    """The page of a module, below ``docs/``."""
    return f"api/{module}.md"


def public_names(module: str) -> list[str]:
    return sorted(importlib.import_module(module).__all__, key=lambda name: (name.lower(), name))


def home_of(module: str, name: str) -> str:
    """The dotted name by which the sources define what a public name stands for."""
    found = getattr(importlib.import_module(module), name)
    if inspect.isclass(found) or inspect.isfunction(found):
        return f"{found.__module__}.{found.__qualname__}"
    return f"{module}.{name}"


def first_sentence(thing: Any) -> str:
    text = " ".join((inspect.getdoc(thing) or "").split()).replace("``", "`")
    return re.split(r"(?<=[.;:])\s(?=[A-Z`])", text)[0]


def page(module: str) -> str:
    return "\n".join(_lines(module))


def _lines(module: str) -> Iterator[str]:
    yield from (f"# {module}", "", MODULES[module], "")
    yield "<!-- This page is made by python -m tools.pages. Edit the docstrings. -->"
    yield from ("", "| name | what it is |", "|---|---|")
    for name in public_names(module):
        thing = getattr(importlib.import_module(module), name)
        yield f"| [`{name}`](#{home_of(module, name)}) | {cell(first_sentence(thing))} |"
    for name in public_names(module):
        yield from ("", f"::: {home_of(module, name)}")
    yield ""
