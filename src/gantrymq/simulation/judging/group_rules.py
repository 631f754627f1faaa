"""What must hold of every history of consumer groups, whoever wrote it. Knows nothing of how the system works.

A group says with ``group`` that it wants the messages of a topic. Each message whose ``sent`` is confirmed must have
been processed by each such group when the history has become ``quiet``: *processed* is written by the program, when it
has done with a message, and not when it got it. Where a group is ``orderly``, the first processing of a message comes
after the first processing of all earlier ones of its queue. What a broker was told of a group's ``progress`` must be
true at that moment, unless failed messages come again from another topic (``retries``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from gantrymq.simulation.judging.history import Event
from gantrymq.simulation.judging.violation import Violation

AT_LEAST_ONCE: Final = "at least once"
IN_ORDER: Final = "in order"
TRUE_PROGRESS: Final = "true progress"
RULES: Final = (AT_LEAST_ONCE, IN_ORDER, TRUE_PROGRESS)
Queue = tuple[str, str, int]


@dataclass(slots=True)
class Group:
    """What one group has done."""

    name: str
    topic: str
    orderly: bool
    retries: bool
    processed: set[str] = field(default_factory=set)
    places: set[tuple[Queue, int]] = field(default_factory=set)
    latest: dict[Queue, int] = field(default_factory=dict)
    """By queue: the highest offset that was processed."""
    overtaken: list[Event] = field(default_factory=list)
    """Processed for the first time after a later message of the queue."""
    passed_by: dict[str, Event] = field(default_factory=dict)
    """Messages that were not processed when the reported progress was behind them, and the first time it was."""
    progress: dict[Queue, int] = field(default_factory=dict)
    """By queue: the highest progress that was looked at."""

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

    def hear(self, event: Event, places: dict[Queue, dict[int, str]]) -> None:
        """The broker was told of a progress; ``places``: of all acknowledged messages."""
        queue = (event["broker"], event["topic"], event["queue"])
        there, before = places.get(queue, {}), self.progress.get(queue, 0)
        for offset in range(before, event["offset"]):
            if (message := there.get(offset)) is not None and message not in self.processed:
                self.passed_by.setdefault(message, event)
        self.progress[queue] = max(before, event["offset"])


def check_groups(events: Iterable[Event]) -> list[Violation]:
    """Every promise to consumer groups that the history breaks."""
    events = list(events)
    groups: dict[str, Group] = {}
    about: dict[str, list[Event]] = {}
    acknowledged = [event for event in events if event["event"] == "sent" and event["confirmed"]]
    places: dict[Queue, dict[int, str]] = {}
    for event in acknowledged:
        if "offset" in event:
            there = places.setdefault((event["broker"], event["topic"], event["queue"]), {})
            there[event["offset"]] = str(event["message"])
    for event in events:
        kind = event["event"]
        if "message" in event:
            about.setdefault(str(event["message"]), []).append(event)
        if kind == "group":
            name = event["group"]
            groups[name] = Group(name, event["topic"], bool(event.get("orderly")), bool(event.get("retries")))
        elif kind == "processed" and event["group"] in groups:
            groups[event["group"]].learn(event)
        elif kind == "progress" and event["group"] in groups:
            groups[event["group"]].hear(event, places)
    quiet = any(event["event"] == "quiet" for event in events)
    confirmed = {str(event["message"]): event["topic"] for event in acknowledged} if quiet else {}
    return [
        violation
        for group in groups.values()
        for find in (_out_of_order, _untrue, partial(_lost, confirmed))
        for violation in find(group, about)
    ]


def _lost(confirmed: dict[str, str], group: Group, about: dict[str, list[Event]]) -> Iterator[Violation]:
    for message, topic in confirmed.items():
        if topic == group.topic and message not in group.processed:
            text = f"its send was acknowledged, and the group {group.name} never processed it"
            yield Violation(AT_LEAST_ONCE, message, text, _evidence(group, about[message]))


def _out_of_order(group: Group, about: dict[str, list[Event]]) -> Iterator[Violation]:
    for event in group.overtaken if group.orderly else ():
        message = str(event["message"])
        text = f"the group {group.name} processed a later message of its queue before it"
        yield Violation(IN_ORDER, message, text, _evidence(group, about[message]))


def _untrue(group: Group, about: dict[str, list[Event]]) -> Iterator[Violation]:
    for message, event in () if group.retries else group.passed_by.items():
        text = f"the progress of the group {group.name} was stored behind it, and it was not processed"
        yield Violation(TRUE_PROGRESS, message, text, (*_evidence(group, about[message]), event))


def _evidence(group: Group, events: list[Event]) -> tuple[Event, ...]:
    return tuple(event for event in events if event.get("group", group.name) == group.name)
