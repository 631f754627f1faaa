"""``docs/errors.md``: every error that users meet, with its meaning and what to do, read from the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .marks import cell

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = ROOT / "src" / "gantrymq"
HOME: Final = "errors.py"
BASE: Final = "GantryError"
SECTIONS: Final = {
    HOME: "Of the package",
    "admin": "Of tools",
    "spark": "Of Spark",
    "testing": "Of tests",
}
"""Where errors of users are defined, and the heading of each place. Those of other packages stay inside."""


@dataclass(frozen=True)
class Error:
    """One class of errors."""

    name: str
    parent: str
    meaning: str
    what_to_do: str
    retryable: bool
    module: str


def errors() -> list[Error]:
    """The errors of users, in the order of their definition. Private ones are left out."""
    classes = [
        (place, node)
        for place in sorted(PACKAGE.rglob("*.py"), key=lambda path: (path.name != HOME, path))
        if (section_of(place)) is not None
        for node in ast.parse(place.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef)
    ]
    known: dict[str, Error] = {}
    for place, node in classes:
        parents = [base.id for base in node.bases if isinstance(base, ast.Name)]
        parent = next((name for name in parents if name == BASE or name in known), None)
        if node.name == BASE or parent is None or node.name.startswith("_"):
            continue
        above = known.get(parent)
        known[node.name] = Error(
            name=node.name,
            parent=parent,
            meaning=" ".join((ast.get_docstring(node) or "").split()),
            what_to_do=str(_own(node, "what_to_do", "")),
            retryable=bool(_own(node, "retryable", above.retryable if above else False)),
            module=".".join(place.relative_to(PACKAGE.parent).with_suffix("").parts),
        )
    return list(known.values())


def section_of(place: Path) -> str | None:
    return SECTIONS.get(place.relative_to(PACKAGE).parts[0])


def _own(node: ast.ClassDef, name: str, otherwise: object) -> object:
    """The value of an assignment in the body of a class, which is written as a literal."""
    for line in node.body:
        if isinstance(line, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in line.targets):
            return ast.literal_eval(line.value)
    return otherwise


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    found = errors()
    for heading in SECTIONS.values():
        rows = [one for one in found if section_of(PACKAGE.parent / f"{one.module.replace('.', '/')}.py") == heading]
        yield from (f"### {heading}", "", "| error | meaning | what to do | again? |", "|---|---|---|---|")
        for one in rows:
            kind = "" if one.parent == BASE else f", a `{one.parent}`"
            again = "yes" if one.retryable else "no"
            meaning = cell(one.meaning.replace("``", "`"))
            yield f"| `{one.name}`{kind} | {meaning} | {cell(one.what_to_do.replace('](docs/', ']('))} | {again} |"
        yield ""
