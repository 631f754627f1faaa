"""One local transaction with messages, between its first message and its end; and who carries out its steps.

| stage    | meaning                                                        | next                      |
|----------|----------------------------------------------------------------|---------------------------|
| OPEN     | messages may be added; their half messages are on their way    | PREPARED, ENDED           |
| PREPARED | all halves are stored and the outcome row is inserted; the     | ENDED                     |
|          | database may commit at any moment                              |                           |
| ENDED    | the brokers were told how it ended                             |                           |

A failure in OPEN is a rollback. A failure in PREPARED is settled by asking the database (``steps.settle``).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.sending.halves import Halves
from gantrymq.errors import TransactionClaimed
from gantrymq.message import properties
from gantrymq.message.message import Message
from gantrymq.sql import steps
from gantrymq.sql.claim import Answer, Failed, Rows
from gantrymq.sql.database import Database
from gantrymq.sql.failures import Failure, read_failure
from gantrymq.sql.outcomes import Outcomes, Statement, failed

T = TypeVar("T")
Insert = Callable[[Statement], object]
"""Executes a statement in the local transaction."""


class Waiter(Protocol):
    """How a thread of the local transaction reaches the event loop of the client."""

    def wait(self, work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        """Run ``work(*arguments)`` there, and return what it returns."""

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Run a function there, after those that were posted before."""


class Stage(enum.Enum):
    OPEN = "open"
    PREPARED = "prepared"
    ENDED = "ended"


class Enlistment:
    """A local transaction and its half messages. For one thread at a time, as its session or connection is."""

    def __init__(
        self, transaction_id: str, marks: dict[str, str], halves: Halves, waiter: Waiter, outcomes: Outcomes,
        database: Database, identity: str, check: Callable[[Message], None],
    ) -> None:  # fmt: skip
        """``marks``: properties of every half message. ``check``: raises for a message that cannot be sent."""
        self.transaction_id: Final = transaction_id
        self.stage = Stage.OPEN
        self.answer: Answer | None = None
        """How it ended."""
        self._marks = marks
        self._halves = halves
        self._waiter = waiter
        self._outcomes = outcomes
        self._database = database
        self._identity = identity
        self._check = check
        self._levels: list[object] = []
        """For each message, the savepoint it was sent in."""
        self._dropped: set[int] = set()

    def __len__(self) -> int:
        """How many messages wait for its end."""
        return len(self._levels) - len(self._dropped)

    def send(self, message: Message, level: object = None) -> None:
        """Send the half message now, without waiting for it. ``level``: the savepoint, for ``drop``.

        The message is copied: what its owner changes later does not count. Raises MessageIllegal.
        """
        self._check(message)
        marked = message.with_properties({**message.properties, **self._marks})
        number = len(self._levels)
        self._levels.append(level)
        self._waiter.post(self._halves.add, number, marked)
        if self.stage is Stage.PREPARED:  # a flush of the commit itself sends it: it must be stored before that goes on
            self._waiter.wait(self._halves.stored)

    def drop(self, belongs: Callable[[object], bool]) -> None:
        """Roll back the messages whose level ``belongs`` to a savepoint that was rolled back."""
        gone = [number for number, level in enumerate(self._levels) if number not in self._dropped and belongs(level)]
        self._dropped.update(gone)
        if gone:
            self._waiter.post(self._halves.drop, gone)

    def prepare(self, insert: Insert) -> None:
        """Before the commit: wait for the halves, then insert the outcome row with ``insert``.

        Raises the errors of sending, TransactionClaimed, and the database's. Then the local transaction must roll back.
        """
        if not len(self):
            return
        self._run(steps.prepare(self.transaction_id), insert)

    def committed(self) -> Answer:
        """The database has committed: end the halves. Raises TransactionConflict."""
        return self._end(steps.committed())

    def failed(self) -> Answer:
        """The database did not say that it committed: roll back, or ask it what happened."""
        if self.stage is Stage.PREPARED:
            return self._end(steps.settle(self.transaction_id, self._identity))
        return self._end(steps.rolled_back())

    def _end(self, ending: steps.Steps) -> Answer:
        self.stage = Stage.ENDED
        answer: Answer = self._run(ending, None)
        self.answer = answer
        return answer

    def _run(self, work: Any, insert: Insert | None) -> Any:
        try:
            step = next(work)
            while True:
                try:
                    got = self._carry_out(step, insert)
                except Exception as error:  # noqa: BLE001 - it belongs to the steps, which end with it
                    step = work.throw(error)
                else:
                    step = work.send(got)
        except StopIteration as end:
            return end.value

    def _carry_out(self, step: steps.Step, insert: Insert | None) -> Rows | Failed | None:
        match step:
            case steps.HalvesStored():
                self._waiter.wait(self._halves.stored)
            case steps.InsertOutcome(transaction_id):
                assert insert is not None
                # From here on a failure may be one of a commit: the row decides.
                self.stage = Stage.PREPARED
                try:
                    insert(self._outcomes.insert(transaction_id))
                except Exception as error:
                    if read_failure(error) is Failure.DUPLICATE:
                        raise TransactionClaimed(transaction_id) from error
                    raise
            case steps.Ask(query, transaction_id):
                return ask(self._database, self._outcomes, query, transaction_id)
            case steps.EndHalves(answer):
                self._waiter.wait(self._halves.end, ListenerAnswer(answer.state, remark=answer.reason))
        return None


def ask(database: Database, outcomes: Outcomes, query: Any, transaction_id: str) -> Rows | Failed:
    try:
        return database.alone(outcomes.query(query, transaction_id))
    except Exception as error:  # noqa: BLE001 - ``failed`` raises what no database said
        return failed(error)


def marks_of(transaction_id: str, identity: str, longest_s: float) -> dict[str, str]:
    """The properties of every half message of a local transaction."""
    return {
        properties.LOCAL_TRANSACTION: f"{transaction_id} {identity}",
        properties.CHECK_IMMUNITY_SECONDS: str(max(1, round(longest_s))),
    }
