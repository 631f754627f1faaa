"""Which modules mypyc compiles, and why each of the others stays Python: the one place that decides it.

The list follows the sources: whole packages are named, and what cannot be compiled is found by a rule over the syntax
tree wherever there is one, so that a module may move to another package and nobody has to change this file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).resolve().parent.parent.parent / "src"

COMPILED_PACKAGES: Final = ("broker", "message", "observability", "protocol", "remoting", "store", "transactions")
"""Where the time of a broker goes. A package that does not exist (yet, or any more) is no mistake."""

COMPILED_MODULES: Final[dict[str, str]] = {
    "runtime.turns": "each request passes it",
    "runtime.limits.peer_watch": "each request passes it",
}
"""Single modules of packages that stay Python, below ``gantrymq``, each with the reason. Every name must exist."""

PURE_PATTERNS: Final[dict[str, str]] = {
    "broker/grpc/*": "protobuf is not there when the core is compiled, and the classes of messages are made at import",
    "*/config.py": "its dataclass is filled with texts first and turns them into numbers in __post_init__",
    "*/config_sections.py": "config.py reads the types of its fields as texts, which is what CPython keeps",
    "*/parser.py": 'mypyc 2.4.1 stops with an internal error at a starred name in a tuple: ("IN", *_TESTS)',
}
"""Glob over the module's path below ``gantrymq`` to the reason: what no rule below can find."""

_STRUCT: Final = "msgspec.Struct"


@dataclass(frozen=True)
class Module:
    """One module of a compiled package."""

    path: Path
    name: str
    """Dotted, ``gantrymq`` included."""
    reason: str | None
    """Why it stays Python; None: it is compiled."""


def modules(source: Path = SOURCE) -> list[Module]:
    """Every module of the packages, and the single ones, in the order of names."""
    trees = dict(_trees(source))
    structs = _struct_classes(trees, source)
    found = []
    for path, tree in trees.items():
        name = module_name(path, source)
        package, _, below = name.partition(".")[2].partition(".")
        if package in COMPILED_PACKAGES or f"{package}.{below}" in COMPILED_MODULES:
            found.append(Module(path, name, _reason(path, source, name, tree, structs)))
    missing = COMPILED_MODULES.keys() - {module.name.partition(".")[2] for module in found}
    if missing and source == SOURCE:
        raise LookupError(f"no module has the name {min(missing)} in COMPILED_MODULES of {__file__}: write its new one")
    return sorted(found, key=lambda module: module.name)


def compiled(source: Path = SOURCE) -> list[Module]:
    return [module for module in modules(source) if module.reason is None]


def _reason(path: Path, source: Path, name: str, tree: ast.Module, structs: set[str]) -> str | None:
    if path.name == "__init__.py" and all(_is_text(node) for node in tree.body):
        return "there is nothing in it"
    defined = {f"{name}.{node.name}" for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    if defined & structs:
        return "msgspec.Struct makes its classes with a metaclass of its own, which a compiled class cannot have"
    below = path.relative_to(source / "gantrymq").as_posix()
    return next((reason for pattern, reason in PURE_PATTERNS.items() if fnmatch(below, pattern)), None)


def _trees(source: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((source / "gantrymq").rglob("*.py")):
        yield path, ast.parse(path.read_bytes(), str(path))


def module_name(path: Path, source: Path = SOURCE) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _struct_classes(trees: dict[Path, ast.Module], source: Path) -> set[str]:
    """Full names of all classes that are ``msgspec.Struct`` or inherit from one, in whatever module that is."""
    bases: dict[str, set[str]] = {}
    for path, tree in trees.items():
        name = module_name(path, source)
        known = _imported(tree)
        bases.update((f"{name}.{local}", {full}) for local, full in known.items())  # others may import it from here
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases[f"{name}.{node.name}"] = {_full(base, name, known) for base in node.bases}
    found = {_STRUCT}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def _imported(tree: ast.Module) -> dict[str, str]:
    """Local name to full name, for every import of the module."""
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known.update((alias.asname or alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            known.update((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
    return known


def _full(base: ast.expr, module: str, known: dict[str, str]) -> str:
    written = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
    first, dot, rest = written.partition(".")
    if first in known:
        return known[first] + dot + rest
    return f"{module}.{written}"
