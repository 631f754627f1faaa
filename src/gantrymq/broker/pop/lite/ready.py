"""Which lite topics may have something for a reader, so that a pop does not look at thousands of empty ones. Pure.

A lite topic is noted when a message arrives, when an acknowledgement opens its queue, and when somebody subscribes to
it. A pop takes the notes off that turned out to be empty. Source: LiteEventDispatcher of 5.5.0.
"""

from __future__ import annotations

from collections.abc import Iterable

from gantrymq.broker.pop.lite.subscriptions import LiteReader


class ReadyQueues:
    """Reader to queues, those that were looked at longest ago first."""

    def __init__(self) -> None:
        self._ready: dict[LiteReader, dict[str, None]] = {}

    def note(self, reader: LiteReader, queues: Iterable[str]) -> None:
        """There may be something in them."""
        self._ready.setdefault(reader, {}).update(dict.fromkeys(queues))

    def of(self, reader: LiteReader) -> tuple[str, ...]:
        return tuple(self._ready.get(reader, ()))

    def looked_at(self, reader: LiteReader, kept: Iterable[str], empty: Iterable[str]) -> None:
        """``kept``: there is more in them, and others have their turn before; ``empty``: there is nothing."""
        ready = self._ready.get(reader)
        if ready is None:
            return
        for queue in empty:
            ready.pop(queue, None)
        for queue in kept:
            if queue in ready:
                del ready[queue]
                ready[queue] = None

    def drop(self, reader: LiteReader, queues: Iterable[str]) -> None:
        """The reader does not read them any more."""
        ready = self._ready.get(reader, {})
        for queue in queues:
            ready.pop(queue, None)
        if not ready:
            self._ready.pop(reader, None)
