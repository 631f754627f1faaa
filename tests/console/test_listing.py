"""Long lists: which rows a page has, and in which order."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="the console needs starlette")

from gantrymq.console.listing import Order, in_order, order_of
from gantrymq.console.navigation import MENU, is_in

ROWS = [{"group": "b", "lag": None}, {"group": "c", "lag": 7}, {"group": "a", "lag": 9}]


def names(order: Order) -> str:
    return "".join(str(row["group"]) for row in in_order(ROWS, order, lambda row, column: row[column]))


def test_rows_without_a_value_come_last_whichever_way_they_are_sorted() -> None:
    assert names(Order("group")) == "abc"
    assert names(Order("lag")) == "cab"
    assert names(Order("lag", descending=True)) == "acb"


def test_an_order_is_read_from_a_query_and_written_into_one() -> None:
    default = Order("group")
    assert order_of("-lag", ("group", "lag"), default) == Order("lag", descending=True)
    for other in (None, "", "-", "nothing", "--lag"):
        assert order_of(other, ("group", "lag"), default) == default
    assert (Order("lag", descending=True).text, Order("lag").text) == ("-lag", "lag")
    assert (Order("lag", descending=True).direction, Order("lag").direction) == ("descending", "ascending")


def test_a_second_click_turns_the_order_around() -> None:
    assert Order("group").after_click("lag", largest_first=True) == "-lag"
    assert Order("lag", descending=True).after_click("lag", largest_first=True) == "lag"
    assert Order("lag").after_click("lag", largest_first=True) == "-lag"
    assert Order("lag").after_click("group", largest_first=False) == "group"


def test_one_entry_of_the_menu_is_the_current_one() -> None:
    for here, expected in (("/", "/"), ("/topics", "/topics"), ("/topics/x", "/topics"), ("/login", None)):
        assert [path for path, _ in MENU if is_in(path, here)] == ([expected] if expected else [])
