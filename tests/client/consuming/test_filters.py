"""Subscription expressions, and the names and places derived from texts: pure functions."""

from __future__ import annotations

import pytest

from gantrymq.client.consuming.filters import EVERYTHING, SQL92, Filter, filter_of
from gantrymq.errors import ConfigError


@pytest.mark.parametrize("text", ["*", "", "  ", "A", "A || B", " A||B "])
def test_tags_are_taken_as_they_are(text: str) -> None:
    assert filter_of(text) == Filter(text) and filter_of(text).tags == text


@pytest.mark.parametrize("text", ["||", " || ", "||||"])
def test_an_expression_without_a_tag_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="names no tag"):
        filter_of(text)


def test_sql_is_left_to_the_broker() -> None:
    wanted = filter_of("*", "price > 3")
    data = wanted.subscription("T", 7)
    assert wanted.tags == "*" and (data.expression_type, data.sub_string, data.sub_version) == (SQL92, "price > 3", 7)
    assert data.tags_set == [] and data.code_set == []
    with pytest.raises(ConfigError, match="not both"):
        filter_of("A", "price > 3")
    with pytest.raises(ConfigError, match="blank"):
        filter_of("*", " ")


def test_the_subscription_of_tags_is_javas() -> None:
    data = filter_of("B || A").subscription("T", 7)
    assert (data.sub_string, data.tags_set, data.code_set) == ("B || A", ["A", "B"], [65, 66])
    assert EVERYTHING.subscription("T", 7).sub_string == "*"
