"""A selector as a closure over the text of a message's properties: compiled once, called for each message.

There are three values: true, false and null (None). A message is selected when the whole expression is true.
Properties are texts, so the type of every part of the tree is known beforehand, and every comparison becomes the one
closure that its two sides need. If a property should be a number and is not, the evaluation fails (ValueError): then
the message is not selected, whatever the rest of the expression says. Source: ComparisonExpression, LogicExpression,
UnaryExpression, ExpressionMessageFilter.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from gantrymq.broker.filtering import java_numbers
from gantrymq.broker.filtering.expressions import (
    And,
    Between,
    Compare,
    Comparison,
    Decimal,
    In,
    IsNull,
    Negate,
    Node,
    Not,
    Null,
    Or,
    Property,
    Text,
    TextMatch,
    TextTest,
    Truth,
    Whole,
)
from gantrymq.broker.filtering.parser import parse
from gantrymq.broker.filtering.predicate import Predicate
from gantrymq.message import properties

Evaluated: TypeAlias = Callable[[str], Any]
Verdict: TypeAlias = Callable[[str], bool | None]
Order: TypeAlias = Callable[[Any, Any], int]

COMPILED: Final = 512
"""Selectors whose closures are kept, over all groups."""
SHORT: Final = 1024
"""Characters of a short selector."""
COMPILED_LONG: Final = 64
"""The same for long ones, which may take 2 MB each."""


@dataclass(frozen=True, slots=True)
class CompiledSelector:
    """A selector, ready for use."""

    wants: Predicate
    terms: int
    """Operands of AND and OR."""
    ignored: str
    """What stands behind the expression and has no effect."""


def compile_selector(text: str) -> CompiledSelector:
    """Raises SelectorInvalid."""
    return (_compiled_short if len(text) <= SHORT else _compiled_long)(text)


def _compile(text: str) -> CompiledSelector:
    selector = parse(text)
    return CompiledSelector(predicate(selector.root), selector.terms, selector.ignored)


# Two tables, so that a few long selectors do not take the memory that many short ones may have.
_compiled_short = lru_cache(maxsize=COMPILED)(_compile)
_compiled_long = lru_cache(maxsize=COMPILED_LONG)(_compile)


def predicate(root: Node) -> Predicate:
    """The tree of a whole selector as a function that never fails."""
    decide = _decision(root)

    def wants(text: str) -> bool:
        try:
            return decide(text) is True
        except ValueError:
            return False

    return wants


class _ValueType(enum.Enum):
    """What a part yields when it does not yield nothing."""

    TEXT = enum.auto()
    INT = enum.auto()
    LONG = enum.auto()
    DOUBLE = enum.auto()
    BOOLEAN = enum.auto()
    NOTHING = enum.auto()


_INTEGERS: Final = (_ValueType.INT, _ValueType.LONG)


def _value(node: Node) -> tuple[_ValueType, Evaluated]:
    """What a node yields, and how."""
    match node:
        case Property(name):
            return _ValueType.TEXT, properties.finder(name)
        case Text(value):
            return _ValueType.TEXT, lambda _: value
        case Whole() | Decimal() | Negate():
            return _number(node)
        case _:
            return _ValueType.BOOLEAN, _decision(node)


def _number(node: Node, sign: int = 1) -> tuple[_ValueType, Evaluated]:
    match node:
        case Whole(value):
            signed = sign * value
            return (_ValueType.INT if -(1 << 31) <= value < 1 << 31 else _ValueType.LONG), lambda _: signed
        case Decimal(value):
            negative = sign * value
            return _ValueType.DOUBLE, lambda _: negative
        case Negate(operand):
            return _number(operand, -sign)
        case _:
            return _ValueType.NOTHING, _nothing


def _nothing(_text: str) -> None:
    return None


# Decisions.


def _decision(node: Node) -> Verdict:
    match node:
        case Truth(value):
            return lambda _: value
        case Null():
            return _nothing
        case Property(name):
            find = properties.finder(name)
            return lambda text: None if find(text) is None else False
        case Not(operand):
            return _inverted(_decision(operand))
        case And(operands):
            return _first_of(False, [_decision(operand) for operand in operands])
        case Or(operands):
            return _first_of(True, [_decision(operand) for operand in operands])
        case IsNull(operand, negated):
            _, evaluate = _value(operand)
            return lambda text: (evaluate(text) is None) is not negated
        case Compare(comparison, left, right):
            return _compare(comparison, left, right)
        case Between(operand, low, high, negated):
            return _between(operand, low, high, negated)
        case In(operand, values, negated):
            return _member(operand, frozenset(values), negated)
        case TextMatch():
            return _text_match(node)
        case _:
            raise ValueError(f"{node} decides nothing")  # the parser makes no such tree


def _inverted(decide: Verdict) -> Verdict:
    def evaluate(text: str) -> bool | None:
        decided = decide(text)
        return None if decided is None else not decided

    return evaluate


def _first_of(settles: bool, decisions: list[Verdict]) -> Verdict:
    """The first ``settles`` ends it; then nothing counts more than the opposite."""

    def evaluate(text: str) -> bool | None:
        result: bool | None = not settles
        for decide in decisions:
            decided = decide(text)
            if decided is settles:
                return settles
            if decided is None:
                result = None
        return result

    return evaluate


def _between(operand: Node, low: Node, high: Node, negated: bool) -> Verdict:
    if negated:
        outside = [_compare(Comparison.LESS, operand, low), _compare(Comparison.GREATER, operand, high)]
        return _first_of(True, outside)
    inside = [_compare(Comparison.GREATER_OR_EQUAL, operand, low), _compare(Comparison.LESS_OR_EQUAL, operand, high)]
    return _first_of(False, inside)


def _member(operand: Property, values: frozenset[str], negated: bool) -> Verdict:
    find = properties.finder(operand.name)

    def evaluate(text: str) -> bool | None:
        value = find(text)
        return None if value is None else (value in values) is not negated

    return evaluate


_TESTS: Final[dict[TextTest, Callable[[str, str], bool]]] = {
    TextTest.CONTAINS: operator.contains,
    TextTest.STARTSWITH: str.startswith,
    TextTest.ENDSWITH: str.endswith,
}


def _text_match(node: TextMatch) -> Verdict:
    """No, also when negated, for what is not there or no text, and for the empty text."""
    kind, evaluate = _value(node.operand)
    wanted, negated, test = node.value, node.negated, _TESTS[node.test]
    if not wanted:
        return lambda _: False
    if kind is not _ValueType.TEXT:
        # What is no text is still evaluated: it may fail.
        return lambda text: evaluate(text) is not None and False

    def decide(text: str) -> bool:
        value = evaluate(text)
        return value is not None and test(value, wanted) is not negated

    return decide


# Comparisons.

_SIGNS: Final[dict[Comparison, Callable[[int], bool]]] = {
    Comparison.LESS: lambda order: order < 0,
    Comparison.LESS_OR_EQUAL: lambda order: order <= 0,
    Comparison.GREATER: lambda order: order > 0,
    Comparison.GREATER_OR_EQUAL: lambda order: order >= 0,
}


def _compare(comparison: Comparison, left: Node, right: Node) -> Verdict:
    left_kind, left_value = _value(left)
    right_kind, right_value = _value(right)
    if comparison is Comparison.NOT_EQUAL:
        return _inverted(_equal(_equality(left_kind, right_kind), left_value, right_value))
    if comparison is Comparison.EQUAL:
        return _equal(_equality(left_kind, right_kind), left_value, right_value)
    return _ordered(_order(left_kind, right_kind), _SIGNS[comparison], left_value, right_value)


def _equal(same: Callable[[Any, Any], bool], left: Evaluated, right: Evaluated) -> Verdict:
    """Nothing equals nothing. Which of the sides is missing matters: nothing = 1 says nothing, 1 = nothing says no."""

    def evaluate(text: str) -> bool | None:
        mine, other = left(text), right(text)
        if mine is None:
            return True if other is None else None
        return False if other is None else same(mine, other)

    return evaluate


def _ordered(order: Order, sign: Callable[[int], bool], left: Evaluated, right: Evaluated) -> Verdict:
    def evaluate(text: str) -> bool | None:
        mine = left(text)
        if mine is None:
            return None
        other = right(text)
        return None if other is None else sign(order(mine, other))

    return evaluate


def _equality(left: _ValueType, right: _ValueType) -> Callable[[Any, Any], bool]:
    if left is right and left is not _ValueType.DOUBLE:
        return operator.eq
    if left is _ValueType.BOOLEAN and right is _ValueType.TEXT:
        return _not_comparable
    if left is _ValueType.TEXT and right is _ValueType.BOOLEAN:
        return lambda mine, other: (mine.lower() == "true") is other
    if _ValueType.BOOLEAN in (left, right):
        return lambda mine, other: False
    order = _order(left, right)
    return lambda mine, other: order(mine, other) == 0


def _not_comparable(mine: object, other: object) -> bool:
    """Apache's broker fails here, too: it casts the boolean to a text."""
    raise ValueError(f"{mine} on the left cannot be compared with the text {other!r} on the right; exchange them")


def _order(left: _ValueType, right: _ValueType) -> Order:
    """How two values of these kinds are brought to one type and ordered: a text becomes the other side's type."""
    if _ValueType.NOTHING in (left, right):
        return lambda mine, other: 0  # never called
    if left is _ValueType.TEXT and right is _ValueType.TEXT:
        return lambda mine, other: java_numbers.order(java_numbers.double(mine), java_numbers.double(other))
    if left is _ValueType.TEXT:
        read, order = _reading(right)
        return lambda mine, other: order(read(mine), other)
    if right is _ValueType.TEXT:
        read, order = _reading(left)
        return lambda mine, other: order(mine, read(other))
    if left in _INTEGERS and right in _INTEGERS:
        return _order_whole
    return lambda mine, other: java_numbers.order(float(mine), float(other))


def _reading(kind: _ValueType) -> tuple[Callable[[str], Any], Order]:
    """How a text is read as such a number, and how two of them are ordered."""
    if kind is _ValueType.DOUBLE:
        return java_numbers.double, java_numbers.order
    bits = 32 if kind is _ValueType.INT else 64
    return lambda text: java_numbers.whole(text, bits), _order_whole


def _order_whole(mine: int, other: int) -> int:
    return (mine > other) - (mine < other)
