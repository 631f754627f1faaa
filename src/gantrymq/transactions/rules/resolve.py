"""END_TRANSACTION: what a request does to the half message it names. Facts in, verdict out."""

from __future__ import annotations

import enum
from typing import Final

from gantrymq.message.transaction import Resolution
from gantrymq.transactions.rules.decision_table import ANY, DecisionTable
from gantrymq.transactions.rules.states import State


class Standing(enum.IntEnum):
    """What the request's two offsets name, by the table of transactions and never by the bytes found there."""

    NO_HALF = 0
    """Nothing the table knows: no half message, or one whose sender was not answered yet."""
    OPEN = 1
    ENDING = 2
    """A decision waits for the disk."""
    COMMITTED = 3
    ROLLED_BACK = 4
    PARKED = 5
    SETTLED = 6
    """Ended while an Apache broker held this store, whose op messages do not say how."""


class Verdict(enum.IntEnum):
    """What the caller does now."""

    COMMIT = 0
    """Append final message and op message, answer when durable."""
    ROLL_BACK = 1
    """Append the op message, answer when durable."""
    ALREADY = 2
    """The same was decided before: SUCCESS, no effect."""
    CONFLICT = 3
    """Something else was decided before: ILLEGAL_OPERATION, recorded."""
    AFTER_ENDING = 4
    """Ask again once the disk has answered for the decision under way."""
    NOTE_UNKNOWN = 5
    """The sender does not know yet: SUCCESS; the check-back goes on."""
    TOPIC_GONE = 6
    """The user's topic was deleted: TOPIC_NOT_EXIST, the half stays open."""
    NO_SUCH_HALF = 7
    WRONG_GROUP = 8
    STRANGER = 9
    """The connection is neither of the producer group nor of the half's sender."""


FACTS: Final = {
    "standing": tuple(Standing),
    "group is right": (False, True),
    "session may speak": (False, True),
    "resolution": tuple(Resolution),
    "topic exists": (False, True),
}

_KNOWN: Final = frozenset(Standing) - {Standing.NO_HALF}
_DECIDED: Final = frozenset({Resolution.COMMIT, Resolution.ROLLBACK})

RULES: Final = DecisionTable(
    FACTS,
    [
        # standing, right group, may speak, resolution, topic exists
        ((Standing.NO_HALF, ANY, ANY, ANY, ANY), Verdict.NO_SUCH_HALF),
        ((_KNOWN, False, ANY, ANY, ANY), Verdict.WRONG_GROUP),
        ((_KNOWN, True, False, ANY, ANY), Verdict.STRANGER),
        ((_KNOWN, True, True, Resolution.UNKNOWN, ANY), Verdict.NOTE_UNKNOWN),
        ((Standing.OPEN, True, True, Resolution.COMMIT, True), Verdict.COMMIT),
        ((Standing.OPEN, True, True, Resolution.COMMIT, False), Verdict.TOPIC_GONE),
        ((Standing.OPEN, True, True, Resolution.ROLLBACK, ANY), Verdict.ROLL_BACK),
        ((Standing.ENDING, True, True, _DECIDED, ANY), Verdict.AFTER_ENDING),
        ((Standing.COMMITTED, True, True, Resolution.COMMIT, ANY), Verdict.ALREADY),
        ((Standing.COMMITTED, True, True, Resolution.ROLLBACK, ANY), Verdict.CONFLICT),
        ((Standing.ROLLED_BACK, True, True, Resolution.ROLLBACK, ANY), Verdict.ALREADY),
        ((Standing.ROLLED_BACK, True, True, Resolution.COMMIT, ANY), Verdict.CONFLICT),
        ((Standing.PARKED, True, True, _DECIDED, ANY), Verdict.CONFLICT),
        ((Standing.SETTLED, True, True, _DECIDED, ANY), Verdict.ALREADY),
    ],
)

STANDING_OF: Final[dict[State, Standing]] = {
    State.STORING: Standing.NO_HALF,
    State.LOST: Standing.NO_HALF,
    State.UNCONFIRMED: Standing.OPEN,
    State.OPEN: Standing.OPEN,
    State.COMMITTING: Standing.ENDING,
    State.ROLLING_BACK: Standing.ENDING,
    State.PARKING: Standing.ENDING,
    State.COMMITTED: Standing.COMMITTED,
    State.ROLLED_BACK: Standing.ROLLED_BACK,
    State.PARKED: Standing.PARKED,
}


def decide(
    standing: Standing, right_group: bool, may_speak: bool, resolution: Resolution, topic_exists: bool
) -> Verdict:  # fmt: skip
    """The verdict for these facts; see FACTS for their meaning."""
    return RULES[standing, right_group, may_speak, resolution, topic_exists]


def is_sender(peer: bytes, born_host: bytes, unique_key: str, named: tuple[str | None, ...], is_answer: bool) -> bool:
    """Whether a connection without a heartbeat of the producer group may end a half, because its process sent it.

    ``peer``, ``born_host``: the packed address and port of this connection, and of the one the half came by.
    ``named``: the ids in the request. ``is_answer``: it answers a check.

    | answer | same address | same port | names UNIQ_KEY | may |
    |--------|--------------|-----------|----------------|-----|
    | yes    |              |           |                | no  | checks go to connections of the group only
    | no     | no           |           |                | no  |
    | no     | yes          | yes       |                | yes | the connection the half came by
    | no     | yes          | no        | yes            | yes | the sender, on another connection
    | no     | yes          | no        | no             | no  | a stranger that happens to run there (hole 21)

    No rule can be stricter and still serve the official clients. They end a half within milliseconds, long before their
    first heartbeat on the connection; with the "VIP channel" the half comes by the fast port and its end by the other
    one, and after a restart of the broker by a new connection. The id is what only the sender has: all of them put
    it into the end, and no answer or topic that consumers can read shows it before the commit.
    """
    if is_answer or peer[:-_PORT_BYTES] != born_host[:-_PORT_BYTES]:
        return False
    return peer == born_host or (unique_key != "" and unique_key in named)


_PORT_BYTES: Final = 4
