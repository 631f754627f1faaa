"""Which messages are the same for an inbox."""

from __future__ import annotations

import pytest

from gantrymq.sql.inbox import rows as inbox_rows
from tests.sql.message_views import view


def test_what_is_sent_back_has_the_same_row() -> None:
    first = view("K")
    again = view("K", topic="%RETRY%shipping", RETRY_TOPIC="orders", ORIGIN_MESSAGE_ID="offset 0")
    seen = view("K", RETRY_TOPIC="orders", ORIGIN_MESSAGE_ID="offset 0")  # as PushConsumer shows it
    assert inbox_rows.row_id(first, None) == inbox_rows.row_id(again, None) == inbox_rows.row_id(seen, None)


def test_without_a_unique_key_the_first_place_counts() -> None:
    first, again = view("1"), view("2", ORIGIN_MESSAGE_ID="1")
    del first.properties["UNIQ_KEY"], again.properties["UNIQ_KEY"]
    assert inbox_rows.row_id(first, None) == inbox_rows.row_id(again, None)


def test_one_object_sent_to_two_topics_is_two_messages() -> None:
    assert inbox_rows.row_id(view("K", topic="a"), None) != inbox_rows.row_id(view("K", topic="b"), None)


@pytest.mark.parametrize(
    "key", ["k" * 256, "ends with a space ", "ends with a tab\t", "ü" * 300, "a\0b", "\ud800" * 300]
)
def test_a_key_that_does_not_fit_is_hashed(key: str) -> None:
    row = inbox_rows.row_id(view(), lambda _: key)
    assert row.startswith("sha256 ") and len(row) == 71
    assert row != inbox_rows.row_id(view(), lambda _: key[:-1]), "also where a collation takes them for the same"
