"""What must hold of every history of consumer groups, whoever wrote it. Knows nothing of how the system works.

A group says with ``group`` that it wants the messages of a topic. Each message whose ``sent`` is confirmed must have
been processed by each such group when the history has become ``quiet``: *processed* is written by the program, when it
has done with a message, and not when it got it. Where a group is ``orderly``, the first processing of a message comes
after the first processing of all earlier ones of its queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gantrymq.testing.history import Event
from gantrymq.testing.violation import Violation

AT_LEAST_ONCE: Final = "at least once"
IN_ORDER: Final = "in order"
RULES: Final = (AT_LEAST_ONCE, IN_ORDER)
Queue = tuple[str, str, int]


@dataclass(slots=True)
class Group:
    """What one group has done."""

    name: str
    topic: str
    orderly: bool
    processed: set[str] = field(default_factory=set)
    places: set[tuple[Queue, int]] = field(default_factory=set)
    latest: dict[Queue, int] = field(default_factory=dict)
    """By queue: the highest offset that was processed."""
    overtaken: list[Event] = field(default_factory=list)
    """Processed for the first time after a later message of the queue."""

    def learn(self, event: Event) -> None:
        self.processed.add(str(event["message"]))
        queue, offset = (event["broker"], event["topic"], event["queue"]), event["offset"]
        if (queue, offset) in self.places:
            return
        self.places.add((queue, offset))
        latest = self.latest.get(queue, -1)
        if offset < latest:
            self.overtaken.append(event)
        self.latest[queue] = max(offset, latest)


def check_groups(events: Iterable[Event]) -> list[Violation]:
    """Every promise to consumer groups that the history breaks."""
    groups: dict[str, Group] = {}
    confirmed: dict[str, str] = {}
    about: dict[str, list[Event]] = {}
    quiet = False
    for event in events:
        kind = event["event"]
        quiet |= kind == "quiet"
        if "message" in event:
            about.setdefault(str(event["message"]), []).append(event)
        if kind == "group":
            groups[event["group"]] = Group(event["group"], event["topic"], bool(event.get("orderly")))
        elif kind == "sent" and event["confirmed"]:
            confirmed[str(event["message"])] = event["topic"]
        elif kind == "processed" and event["group"] in groups:
            groups[event["group"]].learn(event)
    found = [violation for group in groups.values() for violation in _out_of_order(group, about)]
    if quiet:
        found += [violation for group in groups.values() for violation in _lost(group, confirmed, about)]
    return found


def _lost(group: Group, confirmed: dict[str, str], about: dict[str, list[Event]]) -> Iterator[Violation]:
    for message, topic in confirmed.items():
        if topic == group.topic and message not in group.processed:
            text = f"its send was acknowledged, and the group {group.name} never processed it"
            yield Violation(AT_LEAST_ONCE, message, text, _evidence(group, about[message]))


def _out_of_order(group: Group, about: dict[str, list[Event]]) -> Iterator[Violation]:
    for event in group.overtaken if group.orderly else ():
        message = str(event["message"])
        text = f"the group {group.name} processed a later message of its queue before it"
        yield Violation(IN_ORDER, message, text, _evidence(group, about[message]))


def _evidence(group: Group, events: list[Event]) -> tuple[Event, ...]:
    return tuple(event for event in events if event.get("group", group.name) == group.name)
