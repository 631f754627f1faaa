"""The tree of a selector. Frozen; the parser makes only trees whose operands have allowed types.

Source: org.apache.rocketmq.filter.expression; docs/selectors.md.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Property:
    """A message property by name: text, or nothing when the message does not have it."""

    name: str


@dataclass(frozen=True, slots=True)
class Text:
    """``'it''s'``"""

    value: str


@dataclass(frozen=True, slots=True)
class Whole:
    """``42`` or ``42L``: 64 bits. What fits into 32 bits is compared as 32 bits, as in Java."""

    value: int


@dataclass(frozen=True, slots=True)
class Decimal:
    """``1.5``, ``2e3``: a double, neither zero nor infinite."""

    value: float


@dataclass(frozen=True, slots=True)
class Truth:
    """``TRUE`` or ``FALSE``"""

    value: bool


@dataclass(frozen=True, slots=True)
class Null:
    """``NULL``"""


@dataclass(frozen=True, slots=True)
class Negate:
    """``-x``: a number for a literal number, nothing for all else."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Not:
    operand: Node


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Node, ...]


class Comparison(enum.Enum):
    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


@dataclass(frozen=True, slots=True)
class Compare:
    comparison: Comparison
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Node
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Between:
    """Both ends belong to it."""

    operand: Node
    low: Node
    high: Node
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In:
    operand: Property
    values: tuple[str, ...]
    negated: bool = False


class TextTest(enum.Enum):
    CONTAINS = "CONTAINS"
    STARTSWITH = "STARTSWITH"
    ENDSWITH = "ENDSWITH"


@dataclass(frozen=True, slots=True)
class TextMatch:
    test: TextTest
    operand: Node
    value: str
    negated: bool = False


Node: TypeAlias = (
    Property
    | Text
    | Whole
    | Decimal
    | Truth
    | Null
    | Negate
    | Not
    | And
    | Or
    | Compare
    | IsNull
    | Between
    | In
    | TextMatch
)
BOOLEAN = (Truth, Null, Not, And, Or, Compare, IsNull, Between, In, TextMatch)
"""Nodes with the values true, false and null. A property is allowed in their place; it is never true."""


def to_text(node: Node) -> str:
    """A selector that is parsed into the same tree."""
    match node:
        case Property() | Text() | Whole() | Decimal() | Truth() | Null():
            return _atom(node)
        case Negate(operand):
            return f"-{_inner(operand)}"
        case Not(operand):
            return f"NOT {_inner(operand)}"
        case And(operands):
            return " AND ".join(map(_inner, operands))
        case Or(operands):
            return " OR ".join(map(_inner, operands))
        case Compare(comparison, left, right):
            return f"{_inner(left)} {comparison.value} {_inner(right)}"
        case IsNull(operand, negated):
            return f"{_inner(operand)} IS {_not(negated)}NULL"
        case Between(operand, low, high, negated):
            return f"{_inner(operand)} {_not(negated)}BETWEEN {_inner(low)} AND {_inner(high)}"
        case In(operand, values, negated):
            return f"{_inner(operand)} {_not(negated)}IN ({', '.join(map(quoted, values))})"
        case TextMatch(test, operand, value, negated):
            return f"{_inner(operand)} {_not(negated)}{test.value} {quoted(value)}"


def _atom(node: Property | Text | Whole | Decimal | Truth | Null) -> str:
    match node:
        case Property(name):
            return name
        case Text(value):
            return quoted(value)
        case Whole(value) | Decimal(value):
            return str(value)
        case Truth(value):
            return "TRUE" if value else "FALSE"
        case Null():
            return "NULL"


def _inner(node: Node) -> str:
    return _atom(node) if isinstance(node, Property | Text | Whole | Decimal | Truth | Null) else f"({to_text(node)})"


def _not(negated: bool) -> str:
    return "NOT " if negated else ""


def quoted(value: str) -> str:
    """A text literal."""
    return "'" + value.replace("'", "''") + "'"
