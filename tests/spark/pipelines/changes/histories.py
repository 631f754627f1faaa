"""Histories of rows by chance, and what must be in a table afterwards. Pure, but for the chance that is handed in.

An event is about one key, which has two columns, and its order has two columns, too. Events come late and in any order,
some of them twice, and some have the order of another one. In the second half they have a note and large values: the
schema has grown. All events of a key are in one queue: that is how it is
decided which of two events with equal order counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

Key: TypeAlias = tuple[str, int]
Row: TypeAlias = tuple[str, int, int, str, int, str | None]
"""Two columns of the key, two of the order, the value and the note."""
EVENTS_OF_A_KEY = 12
TEXTS = ("", "A", "a", "B", "ä", "z")
"""The second column of the order. The rules of languages put them into another sequence."""
LARGE = 5 << 40
"""More than an int can have."""
OPERATIONS = {"c": "upsert", "u": "upsert", "d": "delete"}


@dataclass(frozen=True, slots=True)
class Event:
    """What one message says."""

    key: Key
    order: tuple[int, str]
    operation: str
    value: int
    note: str | None = None

    @property
    def is_delete(self) -> bool:
        return OPERATIONS[self.operation] == "delete"

    @property
    def body(self) -> dict[str, object]:
        body: dict[str, object] = {"region": self.key[0], "id": self.key[1], "op": self.operation}
        body |= {"version": self.order[0], "step": self.order[1]}
        body |= {} if self.note is None else {"note": self.note}
        return body if self.is_delete else {**body, "value": self.value}

    @property
    def grown(self) -> Event:
        """The same with the columns that came later."""
        return replace(self, note=f"note of {self.value}", value=self.value + LARGE)


def histories(chance: Random, count: int) -> list[Event]:
    """So many events, in the sequence in which they are stored."""
    keys = max(count // EVENTS_OF_A_KEY, 1)
    timed: list[tuple[float, int, Event]] = []
    while len(timed) < count:
        at = len(timed)
        number = chance.randrange(keys)
        key = (f"r{number % 7}", number)
        when = chance.random() * keys
        order = (int(when * 5 / keys), chance.choice(TEXTS))
        operation = chance.choices("cud", (3, 5, 2))[0]
        event = Event(key, order, operation, at * 3 + number % 3)
        # Most events come at about their time, some of them at any time.
        arrives = when + (chance.gauss(0, keys / 20) if chance.random() < 0.8 else chance.random() * keys)
        timed.append((arrives, at, event))
        if chance.random() < 0.1:
            timed.append((arrives + chance.random() * keys, at, event))
    events = [event for _, _, event in sorted(timed[:count], key=lambda one: one[:2])]
    return [*events[: count // 2], *(event.grown for event in events[count // 2 :])]


def last_events(events: Iterable[Event]) -> dict[Key, Event]:
    """The event of each key that counts. Of equal order a delete does, and otherwise the first one."""
    found: dict[Key, Event] = {}
    for event in events:
        known = found.get(event.key)
        if known is None or (event.order, event.is_delete) > (known.order, known.is_delete):
            found[event.key] = event
    return found


def rows_of(events: Iterable[Event]) -> set[Row]:
    """What is in the table afterwards."""
    return {(*one.key, *one.order, one.value, one.note) for one in last_events(events).values() if not one.is_delete}


def differences(expected: set[Row], found: Sequence[Row]) -> list[str]:
    """Each row that is missing, is there and must not be, or is there twice."""
    there = set(found)
    lines = [f"missing: {row}" for row in sorted(expected - there, key=repr)]
    lines += [f"too much: {row}" for row in sorted(there - expected, key=repr)]
    return lines + [f"{len(found) - len(there)} rows are doubled"] * (len(found) > len(there))
