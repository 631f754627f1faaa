"""One open transaction, as the table of transactions holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from gantrymq.errors import StoreError
from gantrymq.transactions.rules.states import TRANSITIONS, Event, State, after

NOT_NOTED: Final = -1
"""Instead of the immunity its sender asked for: a copy that an Apache broker put back, which has no notes."""


Waiting = Callable[["OpenHalf", StoreError | None], None]
"""Called when a write has ended, with None or the error."""


class OpenHalf(Struct, gc=False, eq=False):
    """One transaction without a durable outcome. The only mutable thing of this package, owned by its table.

    A million of them may be open: so it is a struct that the collector does not look at, and texts that many have in
    common are shared (``TransactionTable.add``). ``waiting`` is emptied when a write ends, so that no cycle stays.
    """

    queue_offset: int
    """Of the first copy, in the half queue: the transaction's key. From here to ``stored_at`` nothing changes."""
    log_offset: int
    """Of the first copy."""
    group: str
    unique_key: str
    real_topic: str
    real_queue_id: int
    stored_at: int
    """Store time of the first copy, ms since 1970 by this broker's clock: all ages are counted from it."""
    immunity_ms: int
    state: State
    own_immunity_ms: int = 0
    """Immunity that its sender asked for; 0: none, so it has the broker's; NOT_NOTED: it is a copy."""
    copies: tuple[tuple[int, int], ...] = ()
    """(queue offset, log offset) of the later copies that an Apache broker put back, in order."""
    record: bytes | None = None
    """The half itself as it is stored, while memory allows."""
    waiting: list[Waiting] | None = None
    """What is called when the write under way has ended, in order."""
    immune_until: float = 0.0
    """Monotonic seconds of the end of the immunity: a jump of the wall clock neither shortens nor prolongs it."""
    due: float = -1.0
    """Monotonic seconds of the next look at it; -1: none. Outdated entries of DueTimes differ from it."""
    times_asked: int = 0
    """Checks handed to a live producer since the broker started."""
    unknown_answers: int = 0
    answer_deadline: float = 0.0
    """Monotonic seconds until which the answer to the last check is waited for; 0: no check outstanding."""
    has_turn: bool = False
    """Whether it counts among the checks that its group has to answer."""
    in_line: bool = False
    """Whether it waits until its group can answer one check more."""
    sender_gone: bool = False
    """Whether it has decisive checkers and its sender's connection closed and did not come back in time."""
    sender: str = ""
    """The client id of its sender, when it has decisive checkers and the sender said who it is."""
    lonely: int = 0
    """How many times in a row no member of the group was online."""
    size: int = 0
    """Bytes of the first copy in the log; 0: unknown."""
    tags_code: int | None = None
    """Of the final message; None: it is still to be found in the properties."""

    @property
    def place(self) -> tuple[int, int]:
        """(queue offset, log offset) of the first copy."""
        return self.queue_offset, self.log_offset

    def queue_offsets(self) -> list[int]:
        """Half queue offsets of all copies."""
        return [self.queue_offset, *(queue_offset for queue_offset, _ in self.copies)]

    def newest(self) -> tuple[int, int]:
        """(queue offset, log offset) of the newest copy: the one that an Apache broker would use."""
        return self.copies[-1] if self.copies else (self.queue_offset, self.log_offset)

    def lies_at(self, queue_offset: int, log_offset: int) -> bool:
        return (queue_offset == self.queue_offset and log_offset == self.log_offset) or (
            (queue_offset, log_offset) in self.copies
        )

    def take(self, event: Event) -> None:
        """Enter the next state; InvariantViolated when the event is illegal in this state."""
        try:
            self.state = TRANSITIONS[self.state, event]
        except KeyError:
            self.state = after(self.state, event)  # raises
