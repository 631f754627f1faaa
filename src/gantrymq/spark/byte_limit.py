"""Where a batch ends that is to have about so many bytes (``maxBytesPerTrigger``). No I/O.

No broker says how large a range of messages is. So some messages of the range are looked at, evenly spread, and the
range is made smaller or larger until what they weigh fits: a queue whose first messages are small and whose last ones
are large does not end up with batches of a few small messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from gantrymq.message.queues import MessageQueue
from gantrymq.spark.offsets import Positions, limited

SAMPLES: Final = 8
"""Messages that are looked at in each queue and round."""
ROUNDS: Final = 5
ENOUGH: Final = 0.5
"""A range that fits, and has at least this part of the bytes, is not made larger."""

Place: TypeAlias = tuple[MessageQueue, int]
SizesOf: TypeAlias = Callable[[Sequence[Place]], Mapping[Place, int]]
"""The bytes of the messages at these places; those that are gone are left out."""


def limited_bytes(begin: Positions, end: Positions, max_bytes: int, sizes_of: SizesOf) -> Positions:
    """The positions after about ``max_bytes``. Every queue with messages advances by at least one, and a queue whose
    end is before ``begin`` goes back, as in ``limited``."""
    all_rows = _rows(begin, end)
    chosen, fitting = end, None
    for _ in range(ROUNDS):
        weight = _weight(begin, chosen, sizes_of)
        rows = _rows(begin, chosen)
        if weight <= max_bytes:
            fitting = chosen
            if rows == all_rows or weight >= ENOUGH * max_bytes:
                return chosen
        wanted = min(all_rows, int(rows * max_bytes / weight) if weight else all_rows)
        larger = limited(begin, end, max(1, wanted))
        if larger == chosen:
            return chosen
        chosen = larger
    return chosen if fitting is None or _weight(begin, chosen, sizes_of) <= max_bytes else fitting


def _rows(begin: Positions, end: Positions) -> int:
    return sum(max(0, at - begin.get(queue, 0)) for queue, at in end.items())


def _weight(begin: Positions, end: Positions, sizes_of: SizesOf) -> float:
    """About how many bytes the messages between two positions have."""
    counts = {queue: at - begin.get(queue, 0) for queue, at in end.items() if at > begin.get(queue, 0)}
    places = {queue: _spread(begin.get(queue, 0), count) for queue, count in counts.items()}
    sizes = sizes_of([(queue, at) for queue, offsets in places.items() for at in offsets])
    means: dict[MessageQueue, float] = {}
    for queue, offsets in places.items():
        seen = [sizes[queue, at] for at in offsets if (queue, at) in sizes]
        if seen:
            means[queue] = sum(seen) / len(seen)
    # Of a queue whose messages are gone nothing is known, and reading it says so.
    return sum(counts[queue] * mean for queue, mean in means.items())


def _spread(begin: int, count: int) -> list[int]:
    """Offsets of some of ``count`` messages, the first one among them."""
    return sorted({begin + count * number // SAMPLES for number in range(SAMPLES)})
