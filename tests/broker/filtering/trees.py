"""Trees as the parser makes them, for Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

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

NAMES = ["a", "b", "c", "size_1", "$x", "ANDROID"]
names = st.sampled_from(NAMES).map(Property)
texts = st.sampled_from(["", "x", "it's", "true", "TRUE", "3", "-3", "+3", "3.0", "1e1", "NaN", "2147483648", "näh"])
wholes = st.builds(Whole, st.sampled_from([0, 1, 3, 2147483647, 2147483648, 9223372036854775807]))
decimals = st.builds(Decimal, st.sampled_from([3.0, 0.5, 1e300, 5e-324, 10.0]))
numbers: st.SearchStrategy[Node] = st.one_of(wholes, decimals)
ordered: st.SearchStrategy[Node] = st.one_of(names, numbers, numbers.map(Negate), names.map(Negate))
comparable: st.SearchStrategy[Node] = st.one_of(ordered, st.builds(Text, texts))
leaves: st.SearchStrategy[Node] = st.one_of(st.builds(Truth, st.booleans()), st.just(Null()), names)


def _compounds(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    orderings = st.sampled_from([c for c in Comparison if c not in (Comparison.EQUAL, Comparison.NOT_EQUAL)])
    equalities = st.sampled_from([Comparison.EQUAL, Comparison.NOT_EQUAL])
    deep = inner.filter(lambda node: not isinstance(node, Null | Truth))
    return st.one_of(
        st.builds(And, several),
        st.builds(Or, several),
        st.builds(Not, inner),
        st.builds(Compare, orderings, ordered, ordered),
        st.builds(Compare, equalities, comparable, comparable),
        st.builds(Compare, equalities, deep, comparable),
        st.builds(Compare, equalities, comparable, deep),
        st.builds(IsNull, st.one_of(inner, comparable), st.booleans()),
        st.builds(Between, ordered, names, ordered, st.booleans()),
        st.builds(In, names, st.lists(texts, min_size=1, max_size=3).map(tuple), st.booleans()),
        st.builds(TextMatch, st.sampled_from(TextTest), st.one_of(inner, comparable), texts, st.booleans()),
    )


trees = st.recursive(leaves, _compounds, max_leaves=8)
messages = st.dictionaries(st.sampled_from(NAMES), texts.filter(bool))
