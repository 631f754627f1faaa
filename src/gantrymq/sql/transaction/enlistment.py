"""One local transaction with messages, between its first message and its end; and who carries out its steps.

| stage    | meaning                                                        | next                      |
|----------|----------------------------------------------------------------|---------------------------|
| OPEN     | messages may be added; their half messages are on their way    | PREPARED, ENDED           |
| PREPARED | all halves are stored and the outcome row is inserted; the     | ENDED                     |
|          | database may commit at any moment                              |                           |
| ENDED    | the brokers were told how it ended                             |                           |

A transaction that takes longer than ``longest_transaction`` is given up in OPEN when a broker asks; from PREPARED on
the row decides (see ``client.sending.longest_transaction``).

A failure in OPEN is a rollback. A failure in PREPARED is settled by asking the database (``steps.settle``). One that
the garbage collector finds, because nobody ended its session or connection, is rolled back in OPEN; in PREPARED the
brokers are told UNKNOWN, and ask.

An interrupt (Ctrl-C, a cancellation) may come between any two lines here. What it leaves in the stage OPEN or PREPARED
is ended by the next call of ``failed``, or by the garbage collector; to end twice is to end once.
"""

from __future__ import annotations

import enum
import itertools
import logging
import math
from collections.abc import Callable
from typing import Any, Final, Protocol

from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.sending.halves import Halves
from gantrymq.errors import GantryError, TransactionBroken, TransactionClaimed, TransactionConflict, TransactionTooOld
from gantrymq.message import properties
from gantrymq.message.message import Message
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.sql.rules import steps
from gantrymq.sql.rules.broken import ELSEWHERE, refused
from gantrymq.sql.rules.claim import Answer, Failed, Rows
from gantrymq.sql.rules.outcomes import Outcomes, Statement, failed
from gantrymq.sql.transaction.database import Database

log = logging.getLogger("gantrymq.sql")
Insert = Callable[[Statement], int]
"""Executes a statement in the local transaction; returns how many rows it has inserted. -1: the driver does not say."""


class Waiter(Protocol):
    """How a thread of the local transaction reaches the event loop of the client."""

    def begin(self, function: Callable[..., object], *arguments: Any) -> Callable[[], object]:
        """Run ``function(done, *arguments)`` there, after what was begun or posted before. What this returns waits
        until ``done(result, error)`` was called there, and returns the result or raises the error."""

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Run a function there, after those that were posted before."""


class Stage(enum.Enum):
    OPEN = "open"
    PREPARED = "prepared"
    ENDED = "ended"


LEFT: Final = ListenerAnswer(LocalTransactionState.ROLLBACK)
FORGOTTEN: Final = ListenerAnswer(
    LocalTransactionState.UNKNOWN, remark="the local transaction was forgotten while its database committed it"
)


def _never() -> bool:
    return False


class Enlistment:
    """A local transaction and its half messages.

    For one thread at a time, as its session or connection is; but ``send`` may be called by several.
    """

    def __init__(
        self, transaction_id: str, marks: dict[str, str], halves: Halves, waiter: Waiter, outcomes: Outcomes,
        database: Database, identity: str, check: Callable[[Message], None], too_old: Callable[[], bool] = _never,
        wait_for_brokers: bool = True,
    ) -> None:  # fmt: skip
        """``marks``: properties of every half message. ``check``: raises for a message that cannot be sent.
        ``too_old``: whether a mark of a check-back may have been deleted, see ``cleaning``."""
        self.transaction_id: Final = transaction_id
        self.stage = Stage.OPEN
        self.answer: Answer | None = None
        """How it ended."""
        self.mark = ""
        """That of the block, which the database compares when it inserts the outcome row; see ``proof``. Empty: it does
        not."""
        self._marks = marks
        self._halves = halves
        assert halves.longest is not None
        self._longest = halves.longest
        self._waiter = waiter
        self._outcomes = outcomes
        self._database = database
        self._identity = identity
        self._check = check
        self._too_old = too_old
        self._wait_for_brokers = wait_for_brokers
        self._numbers = itertools.count()
        self._levels: dict[int, object] = {}
        """For each message that is not dropped, the savepoint it was sent in."""
        self._dropped = False
        self._committing = False
        self._left: ListenerAnswer | None = LEFT
        """What the brokers are told when nobody holds this object any longer; None: they were told already."""

    @property
    def insert_and_commit(self) -> str:
        """What a way in may execute instead of the statement that ``prepare`` gives it, if its database is
        PostgreSQL."""
        return self._outcomes.insert_and_commit(self.transaction_id, self.mark)

    def __del__(self) -> None:
        left = getattr(self, "_left", None)
        if left is not None:
            self._halves.abandon(left)

    def __len__(self) -> int:
        """How many messages wait for its end."""
        return len(self._levels)

    def send(self, message: Message, level: object = None) -> None:
        """Send the half message now, without waiting for it. ``level``: the savepoint, for ``drop``.

        The message is copied: what its owner changes later does not count. Raises MessageIllegal, TransactionClaimed.
        """
        if self._longest.given_up:
            raise TransactionClaimed(self.transaction_id)
        self._check(message)
        marked = message.with_properties({**message.properties, **self._marks})
        number = next(self._numbers)  # one step, also for several threads
        self._levels[number] = level
        self._waiter.post(self._halves.add, number, marked)
        # A flush of the commit itself sends it, or another thread: it must be stored before that goes on. What was
        # posted before the commit began to wait is seen there.
        if self._committing:
            self._waiter.begin(self._halves.when_stored)()

    def drop(self, belongs: Callable[[object], bool]) -> None:
        """Roll back the messages whose level ``belongs`` to a savepoint that was rolled back."""
        gone = [number for number, level in list(self._levels.items()) if belongs(level)]
        for number in gone:
            del self._levels[number]
        if gone:
            self._dropped = True
            self._waiter.post(self._halves.drop, gone)

    def wait_for_halves(self) -> None:
        """The first part of ``prepare``, for a way in that has something to do between the parts. Raises the errors of
        sending."""
        if len(self) and self.stage is Stage.OPEN:
            self._carry_out(steps.HalvesStored(), None)

    def prepare(self, insert: Insert) -> None:
        """Before the commit: wait for the halves, then insert the outcome row with ``insert``. Once.

        Raises the errors of sending, TransactionClaimed, and the database's. Then the local transaction must roll back.
        """
        if not len(self) or self.stage is not Stage.OPEN:
            return
        if self._too_old():
            raise TransactionTooOld(self.transaction_id)
        self._committing = True
        self._run(steps.prepare(self.transaction_id), insert)

    def committed(self) -> Answer:
        """The database has committed: end the halves. Raises TransactionConflict."""
        return self._end(steps.committed())

    def rolled_back(self) -> Answer:
        """It is certain that the database has not committed, and never will: no commit was sent to it."""
        return self._end(steps.rolled_back())

    def failed(self) -> Answer:
        """The database did not say that it committed: roll back, or ask it what happened."""
        if self.stage is Stage.PREPARED:
            return self._end(steps.settle(self.transaction_id, self._identity))
        return self._end(steps.rolled_back())

    def _end(self, ending: steps.Steps) -> Answer:
        if self.stage is not Stage.ENDED or self.answer is None:
            self.answer = self._run(ending, None)
        # A level may be an object of the session that has us. Without this, only the garbage collector would free them.
        self._levels = {}
        return self.answer

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
                if self._dropped or not self._halves.are_stored(len(self)):
                    self._waiter.begin(self._halves.when_stored)()
            case steps.InsertOutcome(transaction_id):
                assert insert is not None
                if not self._longest.commit():
                    raise TransactionClaimed(transaction_id)
                # From here on a failure may be one of a commit: the row decides.
                self._left = FORGOTTEN
                self.stage = Stage.PREPARED
                try:
                    found = insert(self._outcomes.insert(transaction_id, self.mark))
                except Exception as error:
                    raised = refused(error, transaction_id, self._outcomes.table)
                    if raised is None:
                        raise
                    raise raised from error
                if not found:
                    raise TransactionBroken(ELSEWHERE)
            case steps.Ask(query, transaction_id):
                return ask(self._database, self._outcomes, query, transaction_id)
            case steps.EndHalves(answer):
                self._end_halves(answer)
        return None

    def _end_halves(self, answer: Answer) -> None:
        outcome = ListenerAnswer(answer.state, remark=answer.reason)
        if not self._wait_for_brokers:
            self._waiter.post(self._halves.begin_to_end, outcome)
            self.stage, self.answer, self._left = Stage.ENDED, answer, None
            return
        wait = self._waiter.begin(self._halves.end_then, outcome)
        # From here on it ends so, whether we wait or not.
        self.stage, self.answer, self._left = Stage.ENDED, answer, None
        try:
            wait()
        except TransactionConflict:
            raise
        except GantryError as error:  # the client is closed, for example: the database has the last word all the same
            log.warning("the brokers will ask how transaction %s ended: %s", self.transaction_id, error)


def ask(database: Database, outcomes: Outcomes, query: Any, transaction_id: str) -> Rows | Failed:
    try:
        return database.alone(outcomes.query(query, transaction_id))
    except Exception as error:  # noqa: BLE001 - ``failed`` raises what no database said
        return failed(error)


def marks_of(transaction_id: str, identity: str, longest_s: float) -> dict[str, str]:
    """The properties of every half message of a local transaction."""
    return {
        properties.LOCAL_TRANSACTION: f"{transaction_id} {identity}",
        properties.CHECK_IMMUNITY_SECONDS: str(math.ceil(longest_s)),
    }
