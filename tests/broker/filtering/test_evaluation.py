"""Evaluating selectors against messages gives the same results as in Java."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given

from gantrymq.broker.filtering.evaluation import compile_selector, predicate
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
from gantrymq.message import properties
from tests.broker.filtering.trees import messages, trees

MESSAGE = {"a": "5", "b": "x", "c": "true", "big": "3000000000", "d": "2.5", "TAGS": "vip"}


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("a = 5", True),
        ("a = '5'", True),
        ("5 = a", True),
        ("a <> 6", True),
        ("a > 4 and a < 6 and a >= 5 and a <= 5", True),
        ("a between 5 and 7", True),
        ("a not between 6 and 7", True),
        ("a between 6 and 7", False),
        ("a = 5.0", True),
        ("d > 2.4", True),
        ("a > d", True),
        ("TAGS = 'vip'", True),
        ("TAGS in ('std', 'vip')", True),
        ("TAGS not in ('std')", True),
        ("tags = 'vip'", False),
        ("missing is null", True),
        ("a is not null", True),
        ("missing = 1 is null", True),
        ("missing = 1", False),
        ("missing <> 1", False),
        ("not (missing = 1)", False),
        ("1 = missing", False),
        ("1 <> missing", True),
        ("missing = absent", True),
        ("missing not in ('x')", False),
        ("missing = 1 or a = 5", True),
        ("missing = 1 and a = 6 is null", False),
        ("b contains 'x' and b startswith 'x' and b endswith 'x'", True),
        ("b not contains 'y'", True),
        ("missing not contains 'y'", False),
        ("b contains ''", False),
        ("b not contains ''", False),
        ("c = true", True),
        ("true = c", False),
        ("b = false", True),
        ("a", False),
        ("not a", True),
        ("not missing", False),
        ("true", True),
        ("null", False),
        ("null is null", True),
        ("a = -5 or a = - -5", True),
        # A text that is no number ends the evaluation, unless it was settled before.
        ("b = 5", False),
        ("b = 5 or a = 5", False),
        ("a = 5 or b = 5", True),
        ("not (b = 5)", False),
        ("b > 1 or true", False),
        # 32 and 64 bits, as in Java.
        ("big > 5", False),
        ("big > 2147483648", True),
        ("big > 5.0", True),
        ("d > 2", False),
    ],
)
def test_a_message_and_a_selector(selector: str, wanted: bool) -> None:
    assert compile_selector(selector).wants(properties.encode(MESSAGE)) is wanted


def test_a_selector_is_compiled_once() -> None:
    assert compile_selector("a = 5 and b = 'once'") is compile_selector("a = 5 and b = 'once'")


@given(trees, messages)
def test_the_closure_says_what_a_naive_reading_of_the_tree_says(tree: Node, message: dict[str, str]) -> None:
    try:
        expected = Naive(message).value(tree) is True
    except NotANumber:
        expected = False
    assert predicate(tree)(properties.encode(message)) is expected


class NotANumber(Exception):
    pass


class Int(int):
    pass


class Long(int):
    pass


class Naive:
    """Walks the tree with values as Java has them, and looks at their types when it has them."""

    def __init__(self, message: dict[str, str]) -> None:
        self._message = message

    def value(self, node: Node) -> Any:
        return getattr(self, "_" + type(node).__name__.lower())(node)

    def _property(self, node: Property) -> str | None:
        return self._message.get(node.name)

    def _text(self, node: Text) -> str:
        return node.value

    def _truth(self, node: Truth) -> bool:
        return node.value

    def _null(self, _node: Null) -> None:
        return None

    def _whole(self, node: Whole) -> int:
        return Int(node.value) if node.value < 2**31 else Long(node.value)

    def _decimal(self, node: Decimal) -> float:
        return node.value

    def _negate(self, node: Negate) -> Any:
        value = self.value(node.operand)
        return type(value)(-value) if isinstance(value, Int | Long | float) else None

    def _bool(self, node: Node) -> bool | None:
        value = self.value(node)
        if isinstance(node, Property):
            return None if value is None else False
        assert value is None or isinstance(value, bool)
        return value

    def _not(self, node: Not) -> bool | None:
        value = self._bool(node.operand)
        return None if value is None else not value

    def _and(self, node: And) -> bool | None:
        result = self._bool(node.operands[0])
        for operand in node.operands[1:]:
            if result is False:
                return False
            value = self._bool(operand)
            result = False if value is False else None if None in (result, value) else True
        return result

    def _or(self, node: Or) -> bool | None:
        return self._not(Not(And(tuple(Not(operand) for operand in node.operands))))

    def _isnull(self, node: IsNull) -> bool:
        return (self.value(node.operand) is None) != node.negated

    def _between(self, node: Between) -> bool | None:
        low = Compare(Comparison.GREATER_OR_EQUAL, node.operand, node.low)
        high = Compare(Comparison.LESS_OR_EQUAL, node.operand, node.high)
        if not node.negated:
            return self._and(And((low, high)))
        return self._or(
            Or((Compare(Comparison.LESS, node.operand, node.low), Compare(Comparison.GREATER, node.operand, node.high)))
        )

    def _in(self, node: In) -> bool | None:
        value = self.value(node.operand)
        return None if value is None else (value in node.values) != node.negated

    def _textmatch(self, node: TextMatch) -> bool:
        if not node.value:
            return False
        value = self.value(node.operand)
        if not isinstance(value, str):
            return False
        found = {
            TextTest.CONTAINS: node.value in value,
            TextTest.STARTSWITH: value[: len(node.value)] == node.value,
            TextTest.ENDSWITH: value[-len(node.value) :] == node.value,
        }[node.test]
        return found != node.negated

    def _compare(self, node: Compare) -> bool | None:
        if node.comparison is Comparison.NOT_EQUAL:
            return self._not(Not(Compare(Comparison.EQUAL, node.left, node.right)))
        left, right = self.value(node.left), self.value(node.right)
        if node.comparison is Comparison.EQUAL:
            if left is None or right is None:
                return True if left is right else None if left is None else False
            if type(left) is type(right) and not isinstance(left, float):
                return bool(left == right)
            return compare(left, right) == 0
        if left is None or right is None:
            return None
        if isinstance(left, str) and isinstance(right, str):
            left, right = to_double(left), to_double(right)
        order = compare(left, right)
        return {
            Comparison.LESS: order < 0,
            Comparison.LESS_OR_EQUAL: order <= 0,
            Comparison.GREATER: order > 0,
            Comparison.GREATER_OR_EQUAL: order >= 0,
        }[node.comparison]


def compare(left: Any, right: Any) -> int:
    if isinstance(left, bool):
        if isinstance(right, str):
            raise NotANumber
        if not isinstance(right, bool):
            return -1
    elif isinstance(left, str):
        left = like(left, right)
    elif isinstance(right, str):
        right = like(right, left)
    elif isinstance(right, bool):
        return -1
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) - math.isnan(right)
        if left == right == 0:
            return int(math.copysign(1, left) - math.copysign(1, right))
    return (left > right) - (left < right)


def like(text: str, other: Any) -> Any:
    if isinstance(other, bool):
        return text.lower() == "true"
    if isinstance(other, float):
        return to_double(text)
    limit = 2**31 if isinstance(other, Int) else 2**63
    try:
        value = int(text)
    except ValueError:
        raise NotANumber from None
    if not -limit <= value < limit:
        raise NotANumber
    return value


def to_double(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise NotANumber from None
