"""The life cycle of a half message as a table: ``(state, event) -> state``; a pair that is missing is illegal.

    STORING -> OPEN -> COMMITTING   -> COMMITTED
                    -> ROLLING_BACK -> ROLLED_BACK
                    -> PARKING      -> PARKED

Every arrow to the right waits until the log is safe (see ``store.log.safety``); when the disk fails, the half is where
it was before the arrow. A half that is not safe when its sender is answered is UNCONFIRMED until it is: its sender may
end it, and nobody is asked about it.
"""

from __future__ import annotations

import enum
from typing import Final

from gantrymq.errors import InvariantViolated


class State(enum.IntEnum):
    """The state of a half message. Where there may be no half message at all, None stands for that."""

    STORING = 0
    """Appended, not yet safe: nobody but its sender knows of it."""
    UNCONFIRMED = 1
    """Stored here and not safe within the time its sender waits; the sender was told so."""
    OPEN = 2
    COMMITTING = 3
    """Final message and op message are appended, not yet safe."""
    ROLLING_BACK = 4
    PARKING = 5
    COMMITTED = 6
    ROLLED_BACK = 7
    PARKED = 8
    """Nobody decided in time. Consumers never see it; an operator may look at it and resume it."""
    LOST = 9
    """Storing it failed, and its sender got an error."""
    SETTLED = 10
    """It ended while an Apache broker held the store, whose op messages do not say how."""

    @property
    def text(self) -> str:
        """The name as tools print it: ``rolled back``."""
        return self.name.lower().replace("_", " ")


class Event(enum.IntEnum):
    """What happens to a half message."""

    DURABLE = 0
    FAILED = 1
    COMMIT = 2
    ROLLBACK = 3
    UNKNOWN = 4
    GIVE_UP = 5
    LATE = 6
    """It is not safe, and its sender waits no longer."""


TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.STORING, Event.DURABLE): State.OPEN,
    (State.STORING, Event.FAILED): State.LOST,
    (State.STORING, Event.LATE): State.UNCONFIRMED,
    (State.UNCONFIRMED, Event.DURABLE): State.OPEN,
    (State.UNCONFIRMED, Event.FAILED): State.LOST,
    (State.UNCONFIRMED, Event.COMMIT): State.COMMITTING,
    (State.UNCONFIRMED, Event.ROLLBACK): State.ROLLING_BACK,
    (State.OPEN, Event.UNKNOWN): State.OPEN,
    (State.OPEN, Event.COMMIT): State.COMMITTING,
    (State.OPEN, Event.ROLLBACK): State.ROLLING_BACK,
    (State.OPEN, Event.GIVE_UP): State.PARKING,
    (State.COMMITTING, Event.DURABLE): State.COMMITTED,
    (State.COMMITTING, Event.FAILED): State.OPEN,
    (State.ROLLING_BACK, Event.DURABLE): State.ROLLED_BACK,
    (State.ROLLING_BACK, Event.FAILED): State.OPEN,
    (State.PARKING, Event.DURABLE): State.PARKED,
    (State.PARKING, Event.FAILED): State.OPEN,
}

TERMINAL: Final = frozenset({State.COMMITTED, State.ROLLED_BACK, State.PARKED, State.LOST, State.SETTLED})
ENDING: Final = frozenset({State.COMMITTING, State.ROLLING_BACK, State.PARKING})
"""A decision was taken and waits for the disk."""


def after(state: State, event: Event) -> State:
    """The state that follows; raises InvariantViolated for what must never happen."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise InvariantViolated(f"a half message that is {state.name} cannot take {event.name}") from None
