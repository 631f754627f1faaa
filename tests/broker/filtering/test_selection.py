"""Which messages a pull selects."""

from __future__ import annotations

import pytest

from gantrymq.broker.filtering.predicate import SelectorInvalid
from gantrymq.broker.filtering.selection import EVERYTHING, by_expression, by_tags
from gantrymq.message.tags import java_hash


def test_tags_and_properties() -> None:
    assert by_tags("*") is EVERYTHING and by_expression(None, None) is EVERYTHING
    assert EVERYTHING.takes(1, "")
    tags = by_expression("A || B", "TAG")
    assert tags.takes(java_hash("B"), "") and not tags.takes(java_hash("C"), "")
    sql = by_expression("a > 5", "SQL92")
    assert sql.takes(1, "a\x016\x02") and not sql.takes(1, "a\x015\x02")


@pytest.mark.parametrize(("text", "kind"), [("", "SQL92"), (None, "SQL92"), ("a >", "SQL92"), ("a > 5", "SQL99")])
def test_what_cannot_be_used(text: str | None, kind: str) -> None:
    with pytest.raises(SelectorInvalid):
        by_expression(text, kind)
