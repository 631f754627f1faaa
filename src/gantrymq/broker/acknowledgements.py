"""What each kind of request is answered with, by what happened to the records it wrote.

Everything here waits through one object, ``store.log.safety.LogSafety``. Consumers get nothing of a request before its
records are safe, whatever was answered; ``EFFECTS`` says what they, or other parts of the broker, get then. The table
is data so that a test can play every cell on a broker (``tests/broker/test_acknowledgements.py``).

| kind             | SAFE    | LATE        | SAFE_LATER | FAILED  |
|------------------|---------|-------------|------------|---------|
| MESSAGE          | SUCCESS | STATUS      | NOTHING    | REFUSED |
| UNWAITED         | SUCCESS | SUCCESS     | NOTHING    | SUCCESS |
| BATCH            | SUCCESS | STATUS      | NOTHING    | REFUSED |
| HALF             | SUCCESS | STATUS      | NOTHING    | REFUSED |
| END              | SUCCESS | UNAVAILABLE | NOTHING    | REFUSED |
| SEND_BACK        | SUCCESS | REFUSED     | NOTHING    | REFUSED |
| RECALL           | SUCCESS | UNAVAILABLE | NOTHING    | REFUSED |
| POP              | SUCCESS | NOTHING     | SUCCESS    | NOTHING |
| ACKNOWLEDGEMENT  | SUCCESS | NOTHING     | SUCCESS    | REFUSED |
| REPLY            | SUCCESS | SUCCESS     | NOTHING    | SUCCESS |
| MOVE             | NOTHING | NOTHING     | NOTHING    | NOTHING |

An end that is late stands: it is carried out when it is safe, and until then everybody who ends that half is answered
UNAVAILABLE. A half that is late can be ended. A pop and its acknowledgement wait on, because a refusal would give
messages back of which the check point is stored already. A reply counts when the requester has it.
"""

from __future__ import annotations

import enum
from typing import Final


class RequestKind(enum.Enum):
    """What is acknowledged."""

    MESSAGE = "a message whose sender waits"
    UNWAITED = "a message whose sender does not wait (WAIT=false)"
    BATCH = "a batch of messages"
    HALF = "a half message"
    END = "the commit or rollback of a half message"
    SEND_BACK = "a message that a consumer sends back"
    RECALL = "the order to forget a timer message"
    POP = "popped messages, whose check point is stored"
    ACKNOWLEDGEMENT = "the acknowledgement of a popped message"
    REPLY = "the reply to a request, where replies are stored"
    MOVE = "a delayed or timer message that moves to its topic, by the broker itself"


class Fate(enum.Enum):
    """What happened to the records."""

    SAFE = "every condition confirmed them in time"
    LATE = "they are stored here, and a limit passed or nobody was there to confirm"
    SAFE_LATER = "they became safe after that"
    FAILED = "writing or syncing them failed"


class Answer(enum.Enum):
    """What the one who waits gets at that moment."""

    SUCCESS = "success, as always"
    STATUS = "where the message lies, with the status FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE"
    UNAVAILABLE = "a refusal that says that it is stored and counts once it is confirmed"
    REFUSED = "a refusal"
    NOTHING = "nothing"


_S, _T, _U, _R, _N = Answer

ACKNOWLEDGEMENTS: Final[dict[RequestKind, dict[Fate, Answer]]] = {
    kind: dict(zip(Fate, answers, strict=True))
    for kind, answers in {
        RequestKind.MESSAGE: (_S, _T, _N, _R),
        RequestKind.UNWAITED: (_S, _S, _N, _S),
        RequestKind.BATCH: (_S, _T, _N, _R),
        RequestKind.HALF: (_S, _T, _N, _R),
        RequestKind.END: (_S, _U, _N, _R),
        RequestKind.SEND_BACK: (_S, _R, _N, _R),
        RequestKind.RECALL: (_S, _U, _N, _R),
        RequestKind.POP: (_S, _N, _S, _N),
        RequestKind.ACKNOWLEDGEMENT: (_S, _N, _S, _R),
        RequestKind.REPLY: (_S, _S, _N, _S),
        RequestKind.MOVE: (_N, _N, _N, _N),
    }.items()
}

EFFECTS: Final[dict[RequestKind, str]] = {
    RequestKind.MESSAGE: "consumers of its topic get it",
    RequestKind.UNWAITED: "consumers of its topic get it",
    RequestKind.BATCH: "consumers of its topic get all of it",
    RequestKind.HALF: "it is an open transaction: it is asked about when its immunity ends",
    RequestKind.END: "the transaction is over; of a commit, consumers of its topic get the message",
    RequestKind.SEND_BACK: "it waits for its delay, then its group gets it again",
    RequestKind.RECALL: "the timer forgets the message",
    RequestKind.POP: "the consumer gets the messages; they are invisible to others for its time",
    RequestKind.ACKNOWLEDGEMENT: "the message does not come back",
    RequestKind.REPLY: "it can be read in the reply topic",
    RequestKind.MOVE: "consumers of its topic get it, and the next ones of its level or second move",
}
"""What follows when the records are safe, and never before."""
