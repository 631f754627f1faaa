"""Where a batch ends that is to have about so many bytes (``maxBytesPerTrigger``). No I/O.

No broker says how large a range of messages is. So some messages of the range are looked at, evenly spread, and the
range is made smaller or larger until what they weigh fits: a queue whose first messages are small and whose last ones
are large does not end up with batches of a few small messages.

To look at a message is to get it. So few are looked at when they are large, or when there are many queues. What is
rare is missed: a batch can become larger by a few messages that are much larger than all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from gantrymq.message.queues import MessageQueue
from gantrymq.spark.offsets import Positions, limited

SAMPLES: Final = 8
"""Messages that are looked at in each queue and round,"""
MOST_SAMPLES: Final = 128
"""in all queues together (but one of each),"""
AT_ONCE: Final = 16
"""and in one question."""
SHARE: Final = 0.25
"""What is looked at is no more than this part of the bytes of a batch, and one question more."""
ROUNDS: Final = 5
ENOUGH: Final = 0.5
"""A range that fits, and has at least this part of the bytes, is not made larger."""

_GOLDEN: Final = 0.6180339887
"""Its multiples are evenly spread between whole numbers."""

Place: TypeAlias = tuple[MessageQueue, int]
SizesOf: TypeAlias = Callable[[Sequence[Place]], Mapping[Place, int]]
"""The bytes of the messages at these places; those that are gone are left out."""


def limited_bytes(begin: Positions, end: Positions, max_bytes: int, sizes_of: SizesOf) -> Positions:
    """The positions after about ``max_bytes``. Every queue with messages advances by at least one, and a queue whose
    end is before ``begin`` goes back, as in ``limited``."""
    scale = _Scale(begin, sizes_of, max_bytes * SHARE)
    all_rows = _rows(begin, end)
    chosen, fitting = end, None
    too_many = all_rows + 1
    for _ in range(ROUNDS):
        weight, rows = scale.weight(chosen), _rows(begin, chosen)
        if weight <= max_bytes:
            fitting = chosen
            if rows == all_rows or weight >= ENOUGH * max_bytes:
                return chosen
        else:
            too_many = min(too_many, rows)
        wanted = int(rows * max_bytes / weight) if weight else all_rows
        if fitting is not None and wanted >= too_many:
            # What is heavy lies between both.
            wanted = int((_rows(begin, fitting) * too_many) ** 0.5)
        changed = limited(begin, end, max(1, min(wanted, all_rows)))
        if changed == chosen:
            return chosen
        chosen = changed
    return chosen if fitting is None or scale.weight(chosen) <= max_bytes else fitting


def _rows(begin: Positions, end: Positions) -> int:
    return sum(max(0, at - begin.get(queue, 0)) for queue, at in end.items())


class _Scale:
    """Weighs ranges that begin at the same positions."""

    def __init__(self, begin: Positions, sizes_of: SizesOf, budget: float) -> None:
        self._begin = begin
        self._sizes_of = sizes_of
        self._budget = budget
        self._asked: set[Place] = set()
        self._sizes: dict[Place, int] = {}

    def weight(self, end: Positions) -> float:
        """About how many bytes the messages up to ``end`` have; 0 when all that were looked at are gone."""
        counts = {queue: rows for queue, at in end.items() if (rows := at - self._begin.get(queue, 0)) > 0}
        places = list(self._places(counts))
        self._look([place for place in places if place not in self._asked])
        seen: dict[MessageQueue, list[int]] = {}
        for place in places:
            if place in self._sizes:
                seen.setdefault(place[0], []).append(self._sizes[place])
        means = {queue: sum(sizes) / len(sizes) for queue, sizes in seen.items()}
        # Of a queue that was not looked at, the messages are as large as those of the others.
        usual = sum(means.values()) / len(means) if means else 0.0
        return sum(rows * means.get(queue, usual) for queue, rows in counts.items())

    def _places(self, counts: Mapping[MessageQueue, int]) -> Iterator[Place]:
        """A message of each queue, then a further one of each, and so on."""
        each = max(1, min(SAMPLES, MOST_SAMPLES // max(1, len(counts))))
        offsets = {queue: _spread(self._begin.get(queue, 0), rows, each) for queue, rows in counts.items()}
        for number in range(each):
            for queue, spread in offsets.items():
                if number < len(spread):
                    yield queue, spread[number]

    def _look(self, places: Sequence[Place]) -> None:
        for start in range(0, len(places), AT_ONCE):
            if self._budget < 0:
                return
            some = places[start : start + AT_ONCE]
            self._asked.update(some)
            found = self._sizes_of(some)
            self._sizes.update(found)
            self._budget -= sum(found.values())


def _spread(begin: int, rows: int, each: int) -> list[int]:
    """Offsets of some of so many messages: the last one, where a backlog may have become different, and one in each of
    equal parts before it. Not at the same place of each part, and even and odd ones in turns: of large and small
    messages that alternate only one kind would be seen."""
    if each == 1:
        return [begin]
    if rows <= each:
        return list(range(begin, begin + rows))
    parts = each - 1
    places = [int((part + part * _GOLDEN % 1) * rows / parts) for part in range(parts)]
    turns = [min(place + ((place ^ part) & 1), rows - 1) for part, place in enumerate(places)]
    return [begin + place for place in dict.fromkeys([*turns, rows - 1])]
