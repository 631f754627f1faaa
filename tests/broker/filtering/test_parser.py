"""Text to tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.broker.filtering.expressions import (
    And,
    Between,
    Compare,
    Comparison,
    In,
    IsNull,
    Negate,
    Node,
    Not,
    Or,
    Property,
    Text,
    TextMatch,
    TextTest,
    Whole,
    to_text,
)
from gantrymq.broker.filtering.parser import (
    MAX_CHAINED,
    MAX_CHARACTERS,
    MAX_NESTING,
    MAX_TERMS,
    MAX_VALUES,
    Selector,
    parse,
)
from gantrymq.broker.filtering.predicate import SelectorInvalid
from tests.broker.filtering.trees import trees

A, B, C = Property("a"), Property("b"), Property("c")


def equal(left: Node, right: Node) -> Compare:
    return Compare(Comparison.EQUAL, left, right)


@given(trees)
def test_a_tree_survives_its_text(tree: Node) -> None:
    assert parse(to_text(tree)) == Selector(tree)


@given(st.text(alphabet="ab '0159.eE-+=<>(),NOTANDBETWEENISULLC/*\n", max_size=30) | st.text(max_size=20))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse(text)
    except SelectorInvalid as error:
        assert str(error)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a or b and not c", Or((A, And((B, Not(C)))))),
        ("a = b or c", Or((equal(A, B), C))),
        ("(a or b) and c", And((Or((A, B)), C))),
        (
            "a = 'it''s' -- why\n and b <> 'x'",
            And((equal(A, Text("it's")), Compare(Comparison.NOT_EQUAL, B, Text("x")))),
        ),
        ("a /* or b ** */ is not null", IsNull(A, True)),
        ("a between 1 and -2L", None),
        ("a not between b and 5 and c", And((Between(A, B, Whole(5), True), C))),
        ("a in ('x', 'y') or b not in ('z')", Or((In(A, ("x", "y")), In(B, ("z",), True)))),
        ("a Contains 'x'", TextMatch(TextTest.CONTAINS, A, "x")),
        ("a not startswith 'x'", TextMatch(TextTest.STARTSWITH, A, "x", True)),
        ("+ + a = --5", equal(A, Negate(Negate(Whole(5))))),
        ("a = b = c", equal(equal(A, B), C)),
        ("a > 1 = b", equal(Compare(Comparison.GREATER, A, Whole(1)), B)),
    ],
)
def test_what_is_read(text: str, tree: Node | None) -> None:
    if tree is None:
        assert isinstance(parse(text).root, Between)  # a negated number is no literal: the order is not checked
    else:
        assert parse(text) == Selector(tree)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a property, a literal or ( expected at character 1, found the end"),
        ("a =", "found the end"),
        ("a = 'x", "begins a text that does not end"),
        ('a = "x"', "single quotes"),
        ("a != 1", "write <> or ="),
        ("a = 1;", "';' at character 6 is not known"),
        ("5", "5 is neither true nor false"),
        ("'x' and a", "'x' is neither true nor false"),
        ("-a", "-a is neither true nor false"),
        ("a = null", "write IS NULL"),
        ("true = 5", "TRUE cannot be compared with 5"),
        ("a > 'x'", "'x' cannot be compared by <"),
        ("a > true", "TRUE cannot be compared by <"),
        ("a > 1 > 2", "a > 1 cannot be compared by <"),
        ("a between 'x' and 'y'", "'x' cannot be compared by <"),
        ("a between 3 and 1", "nothing is between 3 and 1"),
        ("a in (1)", "a text in single quotes expected at character 7, found '1'"),
        ("'a' in ('a')", "IN needs a property on its left"),
        ("a in ()", "a text in single quotes expected"),
        ("a is b", "NULL expected"),
        ("a not b", "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH expected"),
        ("(a", ") expected"),
        ("a > 9223372036854775808", "the greatest whole number"),
        ("a > 1e400", "greater than the greatest double"),
        ("a > 0.0", "write 0"),
        ("(a > 007)", ") expected"),
        ("(" * (MAX_NESTING + 1) + "a", "within each other"),
        ("a" + " = a" * (MAX_CHAINED + 2), "nested comparisons"),
    ],
)
def test_what_is_refused_says_why(text: str, why: str) -> None:
    with pytest.raises(SelectorInvalid) as refused:
        parse(text)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("text", "ignored"),
    [
        ("a = 1 b = 2", "b = 2"),
        ("a like 'x%'", "like 'x%'"),
        ("a = 1 -- end", "-- end"),
        ("a = 007", "07"),
        ("a b ; ?", "b ; ?"),
    ],
)
def test_what_follows_a_whole_expression_has_no_effect_as_in_apache(text: str, ignored: str) -> None:
    assert parse(text).ignored == ignored


def test_many_operands_are_no_nesting() -> None:
    root = parse(" or ".join(f"a = {n}" for n in range(MAX_TERMS))).root
    assert isinstance(root, Or) and len(root.operands) == MAX_TERMS


def test_what_is_too_large_is_refused_with_the_limit() -> None:
    """One selector is read in one turn of the loop, so its size is bounded: what no limit stops is not read at all."""
    for text, limit in (
        (" or ".join(f"a = {n}" for n in range(MAX_TERMS + 1)), "1000 operands"),
        ("and".join(["(a)"] * (MAX_TERMS + 1)), "1000 operands"),
        (" or ".join(["a in ('x', 'y', 'z')"] * (MAX_VALUES // 3 // 2) + [f"a in ({_TEXTS})"]), "5000 texts"),
        (f"a = '{'x' * MAX_CHARACTERS}'", f"has {MAX_CHARACTERS + 6} characters"),
        (f"a = 1{'0' * 60_000}", "greater than 9223372036854775807"),
    ):
        with pytest.raises(SelectorInvalid, match=limit) as refused:
            parse(text)
        assert len(str(refused.value)) < 300, "an error does not repeat what was too long"
    assert len(parse(f"a in ({_TEXTS})").root.values) == MAX_VALUES  # type: ignore[union-attr]


_TEXTS = ",".join(f"'{n}'" for n in range(MAX_VALUES))
