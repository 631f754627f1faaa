"""The rules of ordering keys: messages of one key are visible in the order in which their rows were committed.

They hold for the messages of one key and topic, which are in one queue. The transactions of one key wait for each other
(each changes the same row), so the order of their commits is the order that a user means.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from gantrymq.simulation.judging.history import Event
from gantrymq.simulation.judging.violation import Violation

COMMITTED = "committed"


def check_order(events: Iterable[Event]) -> list[Violation]:
    """Every promise about order that the history breaks."""
    keys: dict[str, str] = {}
    ranks: dict[str, int] = {}
    found: dict[tuple[str, str], dict[tuple[str, int, int], tuple[str, Event]]] = {}
    for event in events:
        name = str(event.get("tx"))
        if event["event"] == "begin" and "order_key" in event:
            keys[name] = event["order_key"]
        elif event["event"] == "row" and event["state"] == COMMITTED:
            ranks.setdefault(name, len(ranks))
        elif event["event"] == "delivered" and name in keys:
            places = found.setdefault((keys[name], event["topic"]), {})
            places.setdefault((event["broker"], event["queue"], event["offset"]), (name, event))
    return [violation for of, places in found.items() for violation in _of_key(*of, places, ranks)]


def _of_key(
    key: str, topic: str, places: dict[tuple[str, int, int], tuple[str, Event]], ranks: dict[str, int]
) -> list[Violation]:
    in_order = [places[place] for place in sorted(places)]
    violations = []
    if len({place[:2] for place in places}) > 1:
        text = f"messages of the key {key} and the topic {topic} are in several queues"
        violations.append(Violation("one queue for a key", in_order[0][0], text, tuple(event for _, event in in_order)))
    for (before, first), (behind, second) in itertools.pairwise(in_order):
        if ranks.get(before, -1) > ranks.get(behind, -1):
            text = f"a later message of the key {key} and the topic {topic} is in front of it: {before}"
            violations.append(Violation("order of a key", behind, text, (first, second)))
    return violations
