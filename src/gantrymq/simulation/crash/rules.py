"""What must hold after a crash: what clients were told is compared with what the restarted broker contains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gantrymq.message.system_topics import HALF, PARKED, SCHEDULE, TIMER, pop_retry_topic
from gantrymq.simulation.crash.client import POPPERS
from gantrymq.simulation.crash.ledger import Expected
from gantrymq.simulation.crash.scenario import OTHER, LogPositions
from gantrymq.simulation.crash.view import OPEN, HalfView, View

WAITING: Final = {"delayed": SCHEDULE, "timer": TIMER}
"""Beginning of the name of a message that waits to where it does so."""
RETRIES: Final = pop_retry_topic(OTHER, POPPERS, v2=False)
"""Where popped messages come back."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A promise that was not kept."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.text} [{self.rule}]"


def judge(
    view: View, expected: Expected, positions: LogPositions, *, sync: bool, written: int = 1 << 62
) -> Iterator[Breach]:
    """All that is wrong. ``sync``: acknowledged means durable; else the log is a beginning of what was written.
    ``written``: from there on the log is not only the workload's, but also that of a start that was cut off.
    """
    if view.failure:
        yield Breach("it starts", view.failure)
        return
    yield from _log(view, positions, sync, written)
    yield from (Breach("queues, log and table agree", text) for text in view.problems)
    if not sync:
        expected = expected.without_acknowledgements()
    yield from _topics(view, expected)
    yield from _ordinary(view, expected)
    yield from _waited(view, expected)
    for half in view.halves.values():
        yield from _half(view, half, expected)
    yield from _transactions(view, expected)
    yield from _offsets(view, expected, sync)


def _log(view: View, positions: LogPositions, sync: bool, written: int) -> Iterator[Breach]:
    if view.quarantined:
        yield Breach("a cut damages nothing", f"{view.quarantined} ranges of the log were quarantined")
    if view.differs_at < min(view.end, written):
        yield Breach("the log is a beginning", f"at {view.differs_at} the log holds what was never written there")
    if view.start > positions.start:
        yield Breach("nothing is forgotten", f"the log begins at {view.start} and not at {positions.start}")
    least = positions.visible if sync else positions.flushed
    if view.end < least:
        yield Breach("what was visible stays", f"the log ends at {view.end}; up to {least} it was there for good")


def _topics(view: View, expected: Expected) -> Iterator[Breach]:
    for topic in expected.topics - view.topics:
        yield Breach("acknowledged is there", f"topic {topic} is gone")


def _ordinary(view: View, expected: Expected) -> Iterator[Breach]:
    for name, (place, log_offset) in expected.stored.items():
        if log_offset >= view.start and view.places.get(place) != (name, log_offset):
            yield Breach("acknowledged is there", f"{name} is not at {place}, log offset {log_offset}")
    for (topic, name), count in view.copies.items():
        wanted = expected.sent.get(name)
        if wanted is None:
            continue
        if count > 1:
            yield Breach("stored once", f"{name} is {count} times in {topic}")
        if topic not in (wanted, WAITING.get(name.partition("-")[0]), RETRIES):
            yield Breach("stored once", f"{name} is in {topic}, it was sent to {wanted}")


def _waited(view: View, expected: Expected) -> Iterator[Breach]:
    """What waits in the log is delivered once, whatever is written of how far that came; also with ASYNC_FLUSH."""
    for name, topic in expected.sent.items():
        waited_in = WAITING.get(name.partition("-")[0])
        if waited_in is not None and view.copies[waited_in, name] and not view.copies[topic, name]:
            yield Breach("what waited arrives once", f"{name} is in {waited_in}, and never comes to {topic}")
    for name, log_offset in expected.popped.items():
        if log_offset >= view.start and not view.copies[RETRIES, name]:
            yield Breach("what waited arrives once", f"{name} was popped and not acknowledged, and never comes back")


def _half(view: View, half: HalfView, expected: Expected) -> Iterator[Breach]:
    for text in half.contradictions():
        yield Breach("one outcome", f"{half.name}, half {half.place}: {text}")
    known = expected.halves.get(half.place)
    if known is not None and known.name != half.name:
        yield Breach("acknowledged is there", f"half {half.place} is {half.name}, it was {known.name}")
        return
    asked = known.asked if known is not None else set()
    if known is not None and known.acknowledged:
        if half.state != known.acknowledged:
            yield Breach("decided once", f"{half.name} is {half.state}; {known.acknowledged} was acknowledged")
    elif half.state != OPEN and half.state not in asked:
        yield Breach("no decision of its own", f"{half.name} is {half.state}; asked was {sorted(asked) or 'nothing'}")


def _transactions(view: View, expected: Expected) -> Iterator[Breach]:
    for place, known in expected.halves.items():
        if known.stored and place[1] >= view.start and place not in view.halves:
            yield Breach("acknowledged is there", f"{known.name}: its half {place} is gone")
    names: dict[str, list[HalfView]] = {}
    for half in view.halves.values():
        names.setdefault(half.name, []).append(half)
    for name, halves in names.items():
        if len(halves) > expected.halves_asked.get(name, 0):
            yield Breach("stored once", f"{name} has {len(halves)} half messages")
        if sum(half.finals for half in halves) > 1:
            yield Breach("one final message", f"{name} is delivered {sum(half.finals for half in halves)} times")
    for (topic, name), count in view.copies.items():
        if name in expected.halves_asked and topic not in (HALF, PARKED) and count > 1:
            yield Breach("one final message", f"{name} is {count} times in {topic}")
    for name in expected.resumed:
        first = min(place[1] for place, known in expected.halves.items() if known.name == name)
        if first >= view.start and len(names.get(name, ())) < 2:
            yield Breach("acknowledged is there", f"{name} was resumed, and has no second half message")


def _offsets(view: View, expected: Expected, sync: bool) -> Iterator[Breach]:
    for (group, topic, queue), committed in expected.offsets.items():
        found = view.offsets.get((group, topic, queue))
        if expected.stopped and found != committed[-1]:
            yield Breach("an orderly stop keeps all", f"{group} is at {found} of {topic}:{queue}, not {committed[-1]}")
        elif found is not None and found not in committed:
            yield Breach("offsets are real", f"{group} is at {found} of {topic}:{queue}; nobody committed that")
