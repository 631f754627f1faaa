"""Pages over several brokers: which rows come, and where each broker goes on."""

from __future__ import annotations

import pytest

from gantrymq.admin.transaction_pages import (
    GroupSummary,
    Summary,
    Undecided,
    _Part,
    by_group,
    merged,
    read_cursor,
    write_cursor,
)
from gantrymq.errors import ConfigError


def row(broker: str, offset: int, age_ms: int) -> Undecided:
    return Undecided(
        id=f"{broker}{offset}", state="open", group="PG", topic="T", queue=0, keys="", tags="", age_ms=age_ms,
        born_at=None, stored_at=f"{1_000_000 - age_ms}",
        born_host="", checks=0, producers_online=0, next_check_at=None, why="", advice="",
        half_queue_offset=offset, half_offset_message_id="", broker=broker,
    )  # fmt: skip


def test_the_oldest_of_all_brokers_come_first_and_each_goes_on_behind_its_last() -> None:
    parts = {
        "a": _Part([row("a", 1, 90), row("a", 2, 50)], "2"),
        "b": _Part([row("b", 7, 80), row("b", 8, 10)], "end"),
    }
    page = merged(parts, {}, 3)
    assert [one.id for one in page.rows] == ["a1", "b7", "a2"]
    assert page.cursor == "a:2;b:7"
    assert read_cursor(page.cursor) == {"a": "2", "b": "7"}


def test_a_broker_none_of_whose_rows_was_taken_starts_where_it_started() -> None:
    parts = {"a": _Part([row("a", 1, 90)], "end"), "b": _Part([row("b", 7, 10)], "end")}
    assert merged(parts, {"b": "5"}, 1).cursor == "a:end;b:5"


def test_the_last_page_has_no_cursor_and_notes_are_kept() -> None:
    page = merged({"a": _Part([], "end", "an Apache broker")}, {"b": "end"}, 5)
    assert (page.rows, page.cursor, page.notes) == ([], None, ["an Apache broker"])


@pytest.mark.parametrize("text", ["nonsense", "a:", "a:1x", ":5;"])
def test_a_cursor_that_no_page_gave(text: str) -> None:
    if text == ":5;":
        assert read_cursor(text) == {"": "5"}
        return
    with pytest.raises(ConfigError, match="first page"):
        read_cursor(text)


def test_cursors_are_read_as_they_are_written() -> None:
    places = {"broker-a": "-1", "broker:b": "end"}
    assert read_cursor(write_cursor(places)) == places


def summary(*groups: GroupSummary) -> Summary:
    return Summary(
        now_ms=0, open=0, oldest_age_ms=None, parked_records=0, groups=list(groups), groups_more=0, topics={}, counts={}
    )


def test_groups_of_several_brokers_are_added() -> None:
    first = GroupSummary(group="PG", open=2, producers_online=0, oldest_age_ms=5)
    second = GroupSummary(group="PG", open=3, producers_online=1, oldest_age_ms=9)
    other = GroupSummary(group="PG2", open=1, producers_online=1, oldest_age_ms=7)
    found = by_group([summary(first, other), summary(second)])
    assert [(one.group, one.open, one.producers_online, one.oldest_age_ms) for one in found] == [
        ("PG", 5, 1, 9), ("PG2", 1, 1, 7),
    ]  # fmt: skip
