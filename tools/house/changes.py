"""Which rooms a change touches: each kind of change is measured by an example that exists.

A *room* is a folder of the package. A change touches every room whose code names its example: as a name, an attribute,
an argument or a text; in a template, as a text in quotation marks. Comments, docstrings and imports do not count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Change:
    """One kind of change. ``limit``: rooms that it may touch. ``example``: one that was made, as a regular expression
    for its names in the code."""

    title: str
    limit: int
    example: str
    given: bool = False
    """Count only rooms that give the name a value of their own: who uses it is not touched."""


CHANGES: Final = (
    Change("a path of HTTP (/transactions/{id})", 2, r"^/transactions/\{id\}$"),
    Change("a method of gRPC", 2, r"^ForwardMessageToDeadLetterQueue(Request|Response)?$"),
    Change("a duty of a replica", 2, r"^(OnDuty|_replica)$"),
    Change("the largest body of a message", 1, r"^MAX_BODY_BYTES$", given=True),
    Change("an option of the Spark source (maxBytesPerTrigger)", 2, r"(?i)^max_?bytes_?per_?trigger$"),
    Change("a page of the console (/traces)", 3, r"^/traces$|^traces\.html$"),
    Change("when a half message is checked", 2, r"^(CheckSchedule|check_policy|CheckAction|immunity_end)$"),
    Change("a property of messages (1ST_POP_TIME)", 2, r"FIRST_POP_TIME|1ST_POP_TIME"),
    Change("a metric (rocketmq_delay_message_latency_seconds)", 1, r"rocketmq_delay_message_latency|DELAY_LATENCY"),
    Change("a type of messages (FIFO)", 3, r"^FIFO$"),
    Change("a compression (ZSTD)", 2, r"^ZSTD$|COMPRESSION_ZSTD|^zstandard$"),
    Change("a dialect of SQL (MariaDB)", 3, r"(?i)^(is_|mysql_is_)?mariadb$"),
    Change("a setting of a client (remembered_transactions)", 1, r"^remembered_transactions$"),
    Change("a rule of retention (by the space in use)", 2, r"disk_space_clean_forcibly_ratio"),
)


def rooms(change: Change, package: Path) -> list[str]:
    """The folders whose code names the example, relative to the package."""
    example = re.compile(change.example)
    return sorted(room for room, names in _rooms(package, change.given).items() if any(map(example.search, names)))


@cache
def _rooms(package: Path, given: bool) -> Mapping[str, frozenset[str]]:
    """The names in each folder. The whole package is read once for all changes."""
    found: dict[str, set[str]] = {}
    for path in package.rglob("*.*"):
        found.setdefault(path.parent.relative_to(package).as_posix(), set()).update(
            _given(path) if given else _names(path)
        )
    return {room: frozenset(names) for room, names in found.items()}


def _given(path: Path) -> Iterator[str]:
    """Names that a module gives a value, other than that of another name."""
    for node in ast.walk(ast.parse(path.read_bytes())) if path.suffix == ".py" else ():
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case _:
                continue
        if not isinstance(value, ast.Name | ast.Attribute):
            yield name


def _names(path: Path) -> Iterator[str]:
    match path.suffix:
        case ".py":
            yield from _names_in_code(ast.parse(path.read_bytes()))
        case ".html":
            yield from re.findall(r'"([^"]*)"', path.read_text())


def _names_in_code(tree: ast.Module) -> Iterator[str]:
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Constant(value=str(text)) if id(node) not in documents:
                yield text
