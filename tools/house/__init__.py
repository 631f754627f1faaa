"""``python -m tools.house``: what the sources of the package look like from outside, as figures that should not grow.

Circles of imports count every arrow: also those below TYPE_CHECKING, inside functions, and by ``import_module``. The
lazy public names of a package (``__init__.py``) are no arrows, because nothing in the package needs them.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "src"
PACKAGE: Final = SOURCE / "gantrymq"

Arrows = Mapping[str, frozenset[str]]
"""Module to the modules that it names."""


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """Every module by its dotted name."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def arrows(source: Path = SOURCE) -> Arrows:
    """Who imports whom."""
    known = modules(source)
    return {
        name: frozenset(target for target in _named(ast.parse(path.read_bytes()), path, known) if target != name)
        for name, path in known.items()
    }


def _named(tree: ast.Module, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield from (target for target in (whole if whole in known else node.module,) if target in known)
        elif isinstance(node, ast.Call) and path.name != "__init__.py" and node.args and _is_import(node.func):
            yield from (target for target in _targets(node.args[0], tree) if target in known)


def _is_import(called: ast.expr) -> bool:
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in ("import_module", "__import__")


def _targets(argument: ast.expr, tree: ast.Module) -> Iterator[str]:
    """A text is a name; of an f-string the first part is, followed by any text of the module."""
    if isinstance(argument, ast.Constant):
        yield str(argument.value)
    elif isinstance(argument, ast.JoinedStr) and isinstance(argument.values[0], ast.Constant):
        begin = str(argument.values[0].value)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield begin + node.value


def circles(drawn: Arrows) -> list[list[str]]:
    """One circle after the other, each broken by leaving out its last arrow, until there is none."""
    graph = {name: set(targets) for name, targets in drawn.items()}
    found = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle: list[str] = error.args[1]
            found.append(sorted(set(circle)))
            graph[circle[1]].discard(circle[0])
        else:
            return sorted(found)


def layers(project: Path = ROOT / "pyproject.toml") -> dict[str, int]:
    """Package to its place from above, as the import contract of the layers says it."""
    contracts = tomllib.loads(project.read_text())["tool"]["importlinter"]["contracts"]
    layered = next(one for one in contracts if one["type"] == "layers" and one["containers"] == ["gantrymq"])
    return {
        name.strip(" ()"): place for place, line in enumerate(layered["layers"]) for name in line.split("|")
    }  # fmt: skip


def arrows_up(drawn: Arrows, places: Mapping[str, int]) -> list[str]:
    """Arrows from a package to one above it, or to one beside it: also those that only types need."""
    found = []
    for source, targets in drawn.items():
        for target in targets:
            one, other = _package(source), _package(target)
            if one != other and one in places and other in places and places[other] <= places[one]:
                found.append(f"{source} -> {target}")
    return sorted(found)


def _package(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def lines(package: str) -> int:
    """How many lines the modules of a package have."""
    return sum(len(path.read_text().splitlines()) for path in (PACKAGE / package).rglob("*.py"))


def doors_named(drawn: Arrows) -> list[str]:
    """Modules of doors that the broker itself names."""
    inside = ("gantrymq.broker.remoting", "gantrymq.broker.http", "gantrymq.broker.grpc")
    return sorted(target for target in drawn["gantrymq.broker.broker"] if target.startswith(inside))


RULES: Final = ("gantrymq.broker.", "gantrymq.transactions.")
DOORS: Final = ("gantrymq.broker.remoting.", "gantrymq.broker.http.", "gantrymq.broker.grpc.")
OF_OTHERS: Final = (
    "gantrymq.broker.upkeep.registration", "gantrymq.broker.upkeep.name_server_routes",
    "gantrymq.broker.replication.tables", "gantrymq.broker.replication.authentication",
    "gantrymq.broker.replication.election.controller.calls",
)  # fmt: skip
"""The broker as a client of name servers, of its primary and of a controller, which speak remoting; and its proof
to its primary."""
SIGNERS: Final = ("gantrymq.broker.broker", "gantrymq.broker.replication.duties")
"""They make the account that the broker signs with."""
DISK: Final = ("stored_message", "message_ids", "hosts", "lenient_json", "trace_records", "files.")
"""The modules of ``protocol`` that are the disk format."""


def beyond_the_disk(drawn: Arrows) -> list[str]:
    """Rules of the broker that name a protocol; pyproject.toml has the same as a contract."""
    allowed = tuple(f"gantrymq.protocol.{module}" for module in DISK)
    return [
        f"{name} -> {target}"
        for name, targets in drawn.items()
        if name.startswith(RULES) and not name.startswith(DOORS) and name not in OF_OTHERS
        for target in sorted(targets)
        if target.startswith("gantrymq.protocol.") and not target.startswith(allowed)
        if not (name in SIGNERS and target == "gantrymq.protocol.signature")
    ]
