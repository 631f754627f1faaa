"""Which modules mypyc compiles, and why each of the others stays Python: the one place that decides it.

The list follows the sources: whole packages are named, and what cannot be compiled is found by a rule over the syntax
tree wherever there is one, so that a module may move to another package and nobody has to change this file.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).resolve().parent.parent.parent / "src"

COMPILED_PACKAGES: Final = (
    "broker", "message", "observability", "protocol", "remoting", "store", "transactions",
    "client.connection", "client.metrics", "client.sending", "client.tracing", "grpc.http2", "sql.rows", "sql.rules",
    "sql.transaction",
)  # fmt: skip
"""Where the time of a broker goes, and that of a client. A package that does not exist (yet, or any more) is not a
mistake."""

OF_USERS: Final = ("client", "sql")
"""Packages in which a module that defines a name of ``PUBLIC`` stays Python: see ``_PUBLIC_REASON``."""
PUBLIC: Final = ("__init__.py", "aio.py", "sql/__init__.py")
"""The modules from which users import, below ``gantrymq``: what they import is public."""

COMPILED_MODULES: Final[dict[str, str]] = {
    "runtime.turns": "each request passes it",
    "runtime.limits.peer_watch": "each request passes it",
}
"""Single modules of packages that stay Python, below ``gantrymq``, each with the reason. Every name must exist."""

NEVER_COMPILED: Final = ("simulation",)
"""Packages that choose pure Python for their whole process, so that their classes may inherit from any."""
COMPILED_WITH: Final = ("gantrymq", "msgspec", "mypy_extensions")
"""Packages that the modules of ``OF_USERS`` may import to be compiled, besides the standard library."""
WEAK_REFERENCES: Final = ("weakref.ref", "weakref.finalize", "while_it_lives")
"""Functions that keep a weak reference to their first argument."""

PURE_PATTERNS: Final[dict[str, str]] = {
    "client/connection/portals.py": "a sub-interpreter has its own portals; compiled globals are those of all",
    "client/connection/runtimes.py": "it raises an error class of the sub-interpreter that asks",
    "broker/grpc/*": "protobuf is not there when the core is compiled, and the classes of messages are made at import",
    "*/config.py": "its dataclass is filled with texts first and turns them into numbers in __post_init__",
    "*/config_sections.py": "config.py reads the types of its fields as texts, which is what CPython keeps",
    "*/parser.py": 'mypyc 2.4.1 stops with an internal error at a starred name in a tuple: ("IN", *_TESTS)',
}
"""Glob over the module's path below ``gantrymq`` to the reason: what no rule below can find."""

_WAITS: Final = (ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncFor, ast.AsyncWith)
_STRUCT: Final = "msgspec.Struct"
_PROTOCOLS: Final = {"typing.Protocol"}
_PUBLIC_REASON: Final = (
    "it has a public name: users inherit from these classes, set attributes, keep weak references and read signatures, "
    "and a wrong argument gets the error of CPython"
)


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
    names = {module_name(path, source): path for path in trees}
    bases = _bases(trees, source)
    structs, public = _below(_STRUCT, bases), _public(trees, source)
    reasons = {
        name: _reason(path, source, name, trees[path], structs, public)
        for name, path in names.items()
        if _is_chosen(name)
    }
    missing = COMPILED_MODULES.keys() - {name.partition(".")[2] for name in reasons}
    if missing and source == SOURCE:
        raise LookupError(f"no module has the name {min(missing)} in COMPILED_MODULES of {__file__}: write its new one")
    protocols = {name for name, above in bases.items() if not above.isdisjoint(_PROTOCOLS)}
    while found := _bases_of_python(names, reasons, bases, protocols):
        reasons.update(found)
    return [Module(names[name], name, reasons[name]) for name in sorted(reasons)]


def _is_chosen(name: str) -> bool:
    below = name.partition(".")[2]
    return below in COMPILED_MODULES or any(f"{below}.".startswith(f"{package}.") for package in COMPILED_PACKAGES)


def compiled(source: Path = SOURCE) -> list[Module]:
    return [module for module in modules(source) if module.reason is None]


def _reason(path: Path, source: Path, name: str, tree: ast.Module, structs: set[str], public: set[str]) -> str | None:
    if path.name == "__init__.py" and all(_is_text(node) for node in tree.body):
        return "there is nothing in it"
    defined = _defined(name, tree)
    if defined & structs:
        return "msgspec.Struct makes its classes with a metaclass of its own, which a compiled class cannot have"
    if any(_waits_in_a_handler(node) for node in ast.walk(tree)):
        return "it waits in an except or finally block, where mypyc lets another task replace the error"
    if name.split(".")[1] in OF_USERS:
        if defined & public:
            return _PUBLIC_REASON
        if others := _imported_packages(tree) - {*sys.stdlib_module_names, *COMPILED_WITH}:
            return f"it imports {min(others)}, which is not there when a wheel is compiled"
        if any(isinstance(node, ast.FunctionDef) and node.name == "__new__" for node in ast.walk(tree)):
            return "mypyc takes no __new__ of an enum"
        if any(_is_checked_dataclass(node) for node in ast.walk(tree)):
            return "its dataclass takes whatever a user passes, and says in __post_init__ what is wrong with it"
        if any(_refers_weakly(node) for node in ast.walk(tree)):
            return "it keeps a weak reference to an object of its own, and compiled objects take none"
    below = path.relative_to(source / "gantrymq").as_posix()
    return next((reason for pattern, reason in PURE_PATTERNS.items() if fnmatch(below, pattern)), None)


def _public(trees: dict[Path, ast.Module], source: Path) -> set[str]:
    """Full names of all that users import."""
    imports = (_imported(trees[path]) for name in PUBLIC if (path := source / "gantrymq" / name) in trees)
    return {full for known in imports for full in known.values()}


def _waits_in_a_handler(node: ast.AST) -> bool:
    """A compiled coroutine has no state of its own for the error that it handles: it leaves that of the thread, and
    finds there what other tasks have left."""
    if isinstance(node, ast.AsyncWith):
        return True
    if not isinstance(node, ast.Try):
        return False
    blocks = [*node.finalbody, *(statement for handler in node.handlers for statement in handler.body)]
    return any(isinstance(inside, _WAITS) for statement in blocks for inside in ast.walk(statement))


def _is_checked_dataclass(node: ast.AST) -> bool:
    if not isinstance(node, ast.ClassDef) or "dataclass" not in " ".join(map(ast.unparse, node.decorator_list)):
        return False
    return any(isinstance(part, ast.FunctionDef) and part.name == "__post_init__" for part in node.body)


def _imported_packages(tree: ast.Module) -> set[str]:
    return {full.partition(".")[0] for full in _imported(tree).values()}


def _refers_weakly(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or ast.unparse(node.func) not in WEAK_REFERENCES or not node.args:
        return False
    return isinstance(node.args[0], ast.Name) and node.args[0].id == "self"


def _bases_of_python(
    names: dict[str, Path], reasons: dict[str, str | None], bases: dict[str, set[str]], protocols: set[str]
) -> dict[str, str]:
    """The modules of ``OF_USERS`` that would be compiled, and in which a class of a Python module has a base."""
    found = {}
    for name, above in bases.items():
        module = _home(name, names)
        if module is None or reasons.get(module, "Python") is None or module.split(".")[1] in NEVER_COMPILED:
            continue
        for base in above - protocols:
            home = _home(base, names)
            if home is not None and reasons.get(home, "Python") is None and home.split(".")[1] in OF_USERS:
                found[home] = f"{name} is Python and inherits from it, and a base must be Python, too"
    return found


def _home(name: str, names: dict[str, Path]) -> str | None:
    """The module of a class by its full name; None: it is no class of ours."""
    while name and name not in names:
        name = name.rpartition(".")[0]
    return name or None


def _trees(source: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((source / "gantrymq").rglob("*.py")):
        yield path, ast.parse(path.read_bytes(), str(path))


def module_name(path: Path, source: Path = SOURCE) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _defined(name: str, tree: ast.Module) -> set[str]:
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return {f"{name}.{node.name}" for node in ast.walk(tree) if isinstance(node, kinds)}


def _bases(trees: dict[Path, ast.Module], source: Path) -> dict[str, set[str]]:
    """Full name of each class to those of its bases, in whatever module these are imported from."""
    imported = {
        f"{module_name(path, source)}.{local}": full
        for path, tree in trees.items()
        for local, full in _imported(tree).items()
    }
    bases: dict[str, set[str]] = {}
    for path, tree in trees.items():
        name = module_name(path, source)
        known = _imported(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases[f"{name}.{node.name}"] = {_origin(_full(base, name, known), imported) for base in node.bases}
    return bases


def _origin(name: str, imported: dict[str, str]) -> str:
    """Where a class comes from that its module may only have imported."""
    passed: set[str] = set()
    while name in imported and name not in passed:
        passed.add(name)
        name = imported[name]
    return name


def _below(root: str, bases: dict[str, set[str]]) -> set[str]:
    """Full names of all classes that are ``root`` or inherit from one that is, in whatever module that is."""
    found = {root}
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
