"""The rules of ordering keys, on histories by hand."""

from __future__ import annotations

from typing import Any

from gantrymq.simulation.judging.checker import check
from gantrymq.simulation.judging.history import Event

ORDER, QUEUE = "order of a key", "one queue for a key"


def sent(*names: str, key: str = "k") -> list[Event]:
    """Messages of one key, committed in this order."""
    begun: list[Event] = [{"event": "begin", "tx": name, "local": True, "order_key": key} for name in names]
    return begun + [{"event": "row", "tx": name, "state": "committed"} for name in names]


def got(name: str, offset: int, **more: Any) -> list[Event]:
    place = {"broker": "b", "topic": "t", "queue": 0, "offset": offset, **more}
    end: Event = {"event": "end", "tx": name, "decision": "COMMIT", "confirmed": True}
    return [end, {"event": "delivered", "tx": name, **place}]


def broken(events: list[Event]) -> set[tuple[str, str]]:
    return {(found.rule, found.transaction) for found in check(events)}


def test_messages_in_the_order_of_their_commits_are_right() -> None:
    assert broken([*sent("one", "two", "three"), *got("one", 0), *got("two", 1), *got("three", 5)]) == set()


def test_a_later_message_in_front_of_an_earlier_one_is_wrong() -> None:
    assert broken([*sent("one", "two"), *got("two", 3), *got("one", 4)]) == {(ORDER, "one")}


def test_the_order_in_which_a_consumer_hears_of_them_does_not_matter() -> None:
    assert broken([*sent("one", "two"), *got("two", 4), *got("one", 3), *got("one", 3)]) == set()


def test_messages_of_a_key_in_two_queues_are_wrong() -> None:
    assert broken([*sent("one", "two"), *got("one", 0), *got("two", 0, queue=1)]) == {(QUEUE, "one")}


def test_topics_and_keys_have_nothing_to_do_with_each_other() -> None:
    events = [*sent("one", "two"), *sent("three", key="other"), *got("two", 0), *got("one", 0, topic="u")]
    assert broken([*events, *got("three", 0, queue=1)]) == set()
