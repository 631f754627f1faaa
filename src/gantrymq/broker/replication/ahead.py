"""A replica reads its log ahead, piece by piece, for the time when it is primary.

What a primary knows of its log grows with the log: which half messages are decided, what was delivered, which messages
are final ones of transactions. To read a GB for it takes seconds, and clients would wait for so long. What is not read
yet when a replica is elected is read in pieces as well: the broker goes on saying that it is alive.
"""

from __future__ import annotations

from typing import Final

from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore
from gantrymq.transactions.decisions_ahead import DecisionsAhead

AHEAD_SECONDS: Final = 0.02
PIECE_BYTES: Final = 2 * 1024 * 1024
"""Some milliseconds of work when the records are small. 100 MB in a second are more than a primary takes."""


class Ahead:
    """Of one broker."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self.decisions: Final = DecisionsAhead(store)

    @property
    def is_done(self) -> bool:
        """Whether little is left to be read."""
        rest = self._store.max_log_offset - self._store.linked.ahead
        return rest <= PIECE_BYTES and self.decisions.is_done

    def look(self) -> None:
        """Read the next piece, if there is one."""
        self._store.linked.look_ahead(PIECE_BYTES)
        self.decisions.look_ahead()

    async def finish(self, clock: Clock) -> None:
        """Read until little is left, and let others work in between."""
        while not self.is_done:
            self.look()
            await clock.sleep(0)

    def forget(self, _position: int) -> None:
        """The log is cut there."""
        self.decisions.forget()
