"""What a request to end a transaction does to the half message that it names. Facts in, action out."""

from __future__ import annotations

import enum
from typing import Final

from gantrymq.message.transaction import Resolution
from gantrymq.transactions.rules.decision_table import ANY, DecisionTable
from gantrymq.transactions.rules.states import ENDING, State


class EndAction(enum.IntEnum):
    """What the broker does with the request."""

    COMMIT = 0
    """Append final message and op message, answer when durable."""
    ROLL_BACK = 1
    """Append the op message, answer when durable."""
    ALREADY = 2
    """The same was decided before: the request succeeds and has no effect."""
    CONFLICT = 3
    """The opposite was decided before: the request is refused and recorded."""
    AFTER_ENDING = 4
    """Look at the request again when the disk has answered for the current decision."""
    NOTE_UNKNOWN = 5
    """The sender does not know the outcome yet: the request succeeds, and check-back continues."""
    TOPIC_GONE = 6
    """The topic of the message was deleted: the request is refused, and the half stays open."""
    NO_SUCH_HALF = 7
    WRONG_GROUP = 8
    STRANGER = 9
    """The client is neither a member of the producer group nor the sender of the half."""


FACTS: Final = {
    "state": (None, *State),
    "group is right": (False, True),
    "client may end": (False, True),
    "resolution": tuple(Resolution),
    "topic exists": (False, True),
}
"""*state*: of the half that the two offsets of the request name, by the table of transactions and never by the bytes
that lie there; None: they name none."""

_ABSENT: Final = frozenset({None, State.STORING, State.LOST})
"""Nothing that a client may know of: no half message, or one whose sender has not been answered with its place."""
_KNOWN: Final = frozenset(State) - _ABSENT
_UNDECIDED: Final = frozenset({State.UNCONFIRMED, State.OPEN})
_DECIDED: Final = frozenset({Resolution.COMMIT, Resolution.ROLLBACK})

RULES: Final = DecisionTable(
    FACTS,
    [
        # state, right group, may end, resolution, topic exists
        ((_ABSENT, ANY, ANY, ANY, ANY), EndAction.NO_SUCH_HALF),
        ((_KNOWN, False, ANY, ANY, ANY), EndAction.WRONG_GROUP),
        ((_KNOWN, True, False, ANY, ANY), EndAction.STRANGER),
        ((_KNOWN, True, True, Resolution.UNKNOWN, ANY), EndAction.NOTE_UNKNOWN),
        ((_UNDECIDED, True, True, Resolution.COMMIT, True), EndAction.COMMIT),
        ((_UNDECIDED, True, True, Resolution.COMMIT, False), EndAction.TOPIC_GONE),
        ((_UNDECIDED, True, True, Resolution.ROLLBACK, ANY), EndAction.ROLL_BACK),
        ((ENDING, True, True, _DECIDED, ANY), EndAction.AFTER_ENDING),
        ((State.COMMITTED, True, True, Resolution.COMMIT, ANY), EndAction.ALREADY),
        ((State.COMMITTED, True, True, Resolution.ROLLBACK, ANY), EndAction.CONFLICT),
        ((State.ROLLED_BACK, True, True, Resolution.ROLLBACK, ANY), EndAction.ALREADY),
        ((State.ROLLED_BACK, True, True, Resolution.COMMIT, ANY), EndAction.CONFLICT),
        ((State.PARKED, True, True, _DECIDED, ANY), EndAction.CONFLICT),
        ((State.SETTLED, True, True, _DECIDED, ANY), EndAction.ALREADY),
    ],
)


def decide(
    state: State | None, right_group: bool, may_end: bool, resolution: Resolution, topic_exists: bool
) -> EndAction:  # fmt: skip
    """The action for these facts; see FACTS for their meaning."""
    return RULES[state, right_group, may_end, resolution, topic_exists]


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


def may_mean(unique_key: str, named: tuple[str | None, ...]) -> bool:
    """Whether a request means the half that lies where it says, and not one that lay there before. ``named``: the ids
    in the request.

    When the end of the log is lost (a power cut with ASYNC_FLUSH, a bad last record), the next half takes the place of
    one that was answered, and whose sender may be alive. All official clients put the UNIQ_KEY into one of two fields.
    """
    return unique_key in named or not any(named) or not unique_key


_PORT_BYTES: Final = 4
