"""One local transaction with messages, between its first message and its end; and who carries out its steps.

| stage    | meaning                                                        | next                      |
|----------|----------------------------------------------------------------|---------------------------|
| OPEN     | messages may be added; their half messages are on their way    | PREPARED, ENDED           |
| PREPARED | all halves are stored and the outcome row is inserted; the     | ENDED                     |
|          | database may commit at any moment                              |                           |
| ENDED    | the brokers were told how it ended                             |                           |

With ``when_broker_is_away`` the messages may go into the outbox instead (``rules.steps``, ``Away``). Then PREPARED
means that outcome row and rows are inserted. No half of it is waited for, and those on their way end with ROLLBACK.
Once it is committed, ``Relay`` is told of the rows.

A transaction that takes longer than ``longest_transaction`` is given up in OPEN when a broker asks; from PREPARED on
the row decides (see ``client.sending.longest_transaction``).

A failure in OPEN is a rollback. A failure in PREPARED is settled by asking the database (``steps.settle``). One that
the garbage collector finds, because nobody ended its session or connection, is rolled back in OPEN; in PREPARED the
brokers are told UNKNOWN, and ask.

The steps are written once, in ``EnlistmentSteps``; ``Enlistment`` runs them in a thread (or in a greenlet of
SQLAlchemy), ``AsyncEnlistment`` on the event loop of the client.

An interrupt (Ctrl-C, a cancellation) may come between any two lines here. What it leaves in the stage OPEN or PREPARED
is ended by the next call of ``failed``, or by the garbage collector; to end twice is to end once.
"""

from __future__ import annotations

import enum
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Final

from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import (
    Closed,
    ConfigError,
    GantryError,
    TransactionBroken,
    TransactionClaimed,
    TransactionConflict,
    TransactionTooOld,
)
from gantrymq.message.message import Message
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.sql.rows.outbox_table import Row, row_id, with_key
from gantrymq.sql.rules import steps
from gantrymq.sql.rules.away import LONGEST_WAIT_S, is_away
from gantrymq.sql.rules.broken import ELSEWHERE, refused
from gantrymq.sql.rules.claim import Answer, Failed, Rows
from gantrymq.sql.rules.outcomes import Statement
from gantrymq.sql.rules.runner import perform, run_blocking
from gantrymq.sql.rules.steps import Away
from gantrymq.sql.transaction.local import LocalSteps
from gantrymq.sql.transaction.relay import Relay
from gantrymq.sql.transaction.waiters import LoopWaiter, Waiter

log = logging.getLogger("gantrymq.sql")
Insert = Callable[[Statement], int]
"""Executes a statement in the local transaction; returns how many rows it has inserted. -1: the driver does not say."""
AsyncInsert = Callable[[Statement], Awaitable[int]]


class Stage(enum.Enum):
    OPEN = "open"
    PREPARED = "prepared"
    ENDED = "ended"


SENT_IN_COMMIT: Final = (
    "this transaction is committing, and its messages are at their brokers: send a message with an ordering key before "
    "the commit begins (for a session: flush() first)"
)
LEFT: Final = ListenerAnswer(LocalTransactionState.ROLLBACK)
FORGOTTEN: Final = ListenerAnswer(
    LocalTransactionState.UNKNOWN, remark="the local transaction was forgotten while its database committed it"
)


class EnlistmentSteps:
    """A local transaction and its half messages, as steps.

    What a step waits for is awaited on an event loop only (``_on_loop``): in a thread the call itself has waited. A
    commit is a hot path, and a coroutine around each call would cost a tenth of it.
    """

    _on_loop: ClassVar = False

    def __init__(
        self, local: LocalSteps, client: TransactionProducer, waiter: Waiter, relay: Relay | None = None
    ) -> None:
        """``relay``: where rows go that are committed; None: messages never become rows."""
        self.transaction_id: Final = local.new_id()
        self.stage = Stage.OPEN
        self.answer: Answer | None = None
        """How it ended."""
        self.mark = ""
        """That of the block, which the database compares when it inserts the outcome row; see ``proof``. Empty: it does
        not."""
        self._local = local
        self._marks = local.marks_of(self.transaction_id)
        self._halves = client.halves(local.settings.longest_transaction)
        assert self._halves.longest is not None
        self._longest = self._halves.longest
        self._waiter = waiter
        self._check = client.check
        self._has_broker = client.has_broker
        self._last_moment = local.last_moment()
        self._numbers = itertools.count()
        self._relay = relay
        self._away = Away.REFUSE if relay is None else self._chosen(local)
        self._messages: dict[int, tuple[Message, str]] = {}
        """Those that are not dropped, and their ordering keys, as far as they may become rows."""
        self._rows: list[Row] = []
        """Messages that are rows in the local transaction."""
        self._sent_at = 0.0
        """When the last message was sent, on the monotonic clock."""
        self.by_row = False
        """The outcome row says, or will say, that the messages are rows."""
        self._rows_made = False
        """The messages so far become rows. A later one would be in no row and under no half message."""
        self._levels: dict[int, object] = {}
        """For each message that is not dropped, the savepoint it was sent in."""
        self._dropped = False
        self._counted = True
        """Each message in ``_levels`` has been given to the halves."""
        self._committing = False
        self._left: ListenerAnswer | None = LEFT
        """What the brokers are told when nobody holds this object any longer; None: they were told already."""

    @property
    def insert_and_commit(self) -> str | None:
        """What a way in may execute instead of the statement that ``prepare`` gives it, if its database is
        PostgreSQL. None: rows follow, so it is not the last statement."""
        return None if self.by_row else self._local.outcomes.insert_and_commit(self.transaction_id, self.mark)

    @staticmethod
    def _chosen(local: LocalSteps) -> Away:
        """How this transaction begins. While brokers are away, no half message is tried: each would wait for one."""
        away = local.settings.away
        return Away.ALWAYS if away is Away.ROW and local.waiting.away else away

    def __del__(self) -> None:
        left = getattr(self, "_left", None)
        if left is not None:
            self._halves.abandon(left)

    def __len__(self) -> int:
        """How many messages wait for its end."""
        return len(self._levels)

    def send(self, message: Message, level: object = None, order_key: object = None) -> None:
        """Send the half message now, without waiting for it. ``level``: the savepoint, for ``drop``. ``order_key``: it
        becomes a row, and so do all others of the transaction.

        The message is copied: what its owner changes later does not count. Raises MessageIllegal, TransactionClaimed,
        and ConfigError for a key that the outbox cannot have.
        """
        if self._longest.given_up:
            raise TransactionClaimed(self.transaction_id)
        self._check(message)
        key = ""
        if order_key is not None:
            key, message = with_key(message, order_key)
            self._check(message)
            self._go_by_row()
        if self._away is Away.ALWAYS:
            self._local.waiting.check_room(len(self._levels) + 1)
        number = next(self._numbers)  # one step, also for several threads
        if self._relay is not None:
            kept = message.with_properties(dict(message.properties))
            self._messages[number] = kept, key
            self._sent_at = self._local.clock.monotonic()
        try:
            self._levels[number] = level
            if self._away is not Away.ALWAYS:
                marked = message.with_properties({**message.properties, **self._marks})
                self._waiter.post(self._halves.add, number, marked)
        except BaseException:  # an interrupt: perhaps nobody will answer it, so the commit must not count the answers
            self._counted = False
            raise

    def _go_by_row(self) -> None:
        """The half messages that are on their way are rolled back, as when a broker is late."""
        self._local.check_order()
        if self._relay is None:
            raise ConfigError(self._local.no_order)
        if self._committing and self._away is not Away.ALWAYS and not self.by_row:
            raise Closed(SENT_IN_COMMIT)
        self._away = Away.ALWAYS

    def drop(self, belongs: Callable[[object], bool]) -> None:
        """Roll back the messages whose level ``belongs`` to a savepoint that was rolled back."""
        gone = [number for number, level in list(self._levels.items()) if belongs(level)]
        for number in gone:
            del self._levels[number]
            self._messages.pop(number, None)
        if gone and self._away is not Away.ALWAYS:
            self._dropped = True
            self._waiter.post(self._halves.drop, gone)

    async def _prepare(self, insert: Insert | AsyncInsert) -> None:
        if not len(self) or self.stage is not Stage.OPEN:
            return
        if self._local.clock.monotonic() > self._last_moment:
            raise TransactionTooOld(self.transaction_id)
        self._committing = True
        await perform(steps.prepare(self.transaction_id, self._away), lambda step: self._carry_out(step, insert))

    async def _end(self, ending: steps.Steps) -> Answer:
        if self.stage is not Stage.ENDED or self.answer is None:
            self.answer = await perform(ending, self._carry_out)
        # A level may be an object of the session that has us. Without this, only the garbage collector would free them.
        self._levels, self._messages = {}, {}
        if self._rows and self.answer.by_row and self._relay is not None:
            self._local.waiting.inserted(len(self._rows))
            self._waiter.post(self._relay.committed, self._rows)
            self._rows = []
        return self.answer

    def _settling(self) -> steps.Steps:
        """The database did not say that it committed."""
        if self.stage is Stage.PREPARED:
            return steps.settle(self.transaction_id, self._local.identity)
        return steps.rolled_back()

    async def _carry_out(
        self, step: steps.Step, insert: Insert | AsyncInsert | None = None
    ) -> Rows | Failed | bool | None:  # fmt: skip
        match step:
            case steps.HalvesStored():
                return await self._halves_stored()
            case steps.InsertOutcome(transaction_id, by_row):
                assert insert is not None
                await self._insert_outcome(transaction_id, by_row, insert)
            case steps.InsertRows():
                assert insert is not None
                await self._insert_rows(insert)
            case steps.Ask(query, transaction_id):
                return await self._local.answer(query, transaction_id)
            case steps.EndHalves(answer):
                begun = self._begin_to_end(answer)
                if begun is None:
                    return None
                try:
                    await begun if self._on_loop else begun()
                except TransactionConflict:
                    raise
                except GantryError as error:  # the client is closed, for example: the database has the last word
                    log.warning("the brokers will ask how transaction %s ended: %s", self.transaction_id, error)
        return None

    async def _halves_stored(self) -> bool:
        """Whether they are; False: no broker has stored them in time, and the messages become rows."""
        if self.by_row:  # ``wait_for_halves`` has found it
            return False
        if not self._dropped and self._halves.are_stored(len(self)):
            return True
        if self._away is not Away.ROW:
            if self._dropped or not self._counted:
                begun = self._waiter.begin(self._halves.when_stored)
            else:
                begun = self._waiter.until_stored(self._halves, len(self))
            await begun if self._on_loop else begun()
            return True
        try:
            begun = self._waiter.begin(self._halves.when_stored_or_late, self._patience_s())
            found = await begun if self._on_loop else begun()
        except GantryError as error:
            if not is_away(error, self._has_broker()):
                raise
            found = False
        if not found:
            self._local.waiting.away = True
            self._local.waiting.check_room(len(self))
            self.by_row = True
        return bool(found)

    def _patience_s(self) -> float:
        """How long brokers may still take to store the half messages."""
        after_ms = self._local.settings.row_after_ms
        if after_ms == 0:
            return LONGEST_WAIT_S if self._has_broker() else 0.0
        return self._sent_at + after_ms / 1000 - self._local.clock.monotonic()

    async def _insert_outcome(self, transaction_id: str, by_row: bool, insert: Insert | AsyncInsert) -> None:
        if by_row:
            self._local.waiting.check_room(len(self))
        if not self._longest.commit():
            raise TransactionClaimed(transaction_id)
        # From here on a failure may be one of a commit: the row decides.
        self._left = FORGOTTEN
        self.stage, self.by_row = Stage.PREPARED, by_row
        outcomes = self._local.outcomes
        try:
            found: Any = insert(outcomes.insert(transaction_id, self.mark, by_row=by_row))
            if self._on_loop:
                found = await found
        except Exception as error:
            raised = refused(error, transaction_id, outcomes.table)
            if raised is None:
                raise
            raise raised from error
        if not found:
            raise TransactionBroken(ELSEWHERE)

    async def _insert_rows(self, insert: Insert | AsyncInsert) -> None:
        assert self._relay is not None
        self._rows_made = True  # first: whoever sends meanwhile looks at this behind it
        messages = [self._messages[number] for number in self._levels]
        rows = [Row(row_id(self.transaction_id, number), *message) for number, message in enumerate(messages)]
        for statement in self._relay.inserts(rows):
            done: Any = insert(statement)
            if self._on_loop:
                await done
        self._rows = rows

    def _begin_to_end(self, answer: Answer) -> Any:
        """End the halves; returns what waits until brokers have answered, if that is wanted. Nobody waits for the
        rollback of halves whose messages are rows: their broker is away."""
        outcome, begun = ListenerAnswer(answer.of_halves, remark=answer.reason), None
        if self._local.settings.wait_for_brokers and not (answer.by_row or self.by_row):
            begun = self._waiter.begin(self._halves.end_then, outcome)
        else:
            self._waiter.post(self._halves.begin_to_end, outcome)
        # From here on it ends so, whether we wait or not.
        self.stage, self.answer, self._left = Stage.ENDED, answer, None
        return begun


class Enlistment(EnlistmentSteps):
    """For one thread at a time, as its session or connection is; but ``send`` may be called by several."""

    def send(self, message: Message, level: object = None, order_key: object = None) -> None:
        super().send(message, level, order_key)
        if self._rows_made:
            raise Closed(
                "this transaction is committing, and its messages are rows of the outbox already: send this one before "
                "the commit begins (for a session: flush() first, or bind it to the engine that was attached)"
            )
        # A flush of the commit itself sends it, or another thread: it must be stored before that goes on. What was
        # posted before the commit began to wait is seen there.
        if self._committing and self._away is not Away.ALWAYS and not self.by_row:
            self._waiter.begin(self._halves.when_stored)()

    def wait_for_halves(self) -> None:
        """The first part of ``prepare``, for a way in that has something to do between the parts. Raises the errors of
        sending."""
        if len(self) and self.stage is Stage.OPEN and self._away is not Away.ALWAYS:
            run_blocking(self._carry_out, steps.HalvesStored())

    def prepare(self, insert: Insert) -> None:
        """Before the commit: wait for the halves, then insert the outcome row with ``insert``. Once.

        Raises the errors of sending, TransactionClaimed, and the database's. Then the local transaction must roll back.
        """
        run_blocking(self._prepare, insert)

    def committed(self) -> Answer:
        """The database has committed: end the halves. Raises TransactionConflict."""
        return run_blocking(self._end, steps.committed(self.by_row))

    def rolled_back(self) -> Answer:
        """It is certain that the database has not committed, and never will: no commit was sent to it."""
        return run_blocking(self._end, steps.rolled_back())

    def failed(self) -> Answer:
        """The database did not say that it committed: roll back, or ask it what happened."""
        return run_blocking(self._end, self._settling())


class AsyncEnlistment(EnlistmentSteps):
    """On the event loop of the client. Raises ConfigError on another one, and Closed for a message that is sent when
    the outcome row was inserted."""

    _on_loop = True

    def __init__(self, local: LocalSteps, client: TransactionProducer, relay: Relay | None = None) -> None:
        self._own = LoopWaiter()
        super().__init__(local, client, self._own, relay)

    def send(self, message: Message, level: object = None, order_key: object = None) -> None:
        if self.stage is not Stage.OPEN:
            raise Closed("this transaction is committing, and takes no more messages")
        self._own.check()
        super().send(message, level, order_key)

    async def prepare(self, insert: AsyncInsert) -> None:
        """See ``Enlistment.prepare``."""
        self._own.check()
        await self._prepare(insert)

    async def committed(self) -> Answer:
        """See ``Enlistment.committed``."""
        return await self._end(steps.committed(self.by_row))

    async def rolled_back(self) -> Answer:
        """See ``Enlistment.rolled_back``."""
        return await self._end(steps.rolled_back())

    async def failed(self) -> Answer:
        """See ``Enlistment.failed``."""
        return await self._end(self._settling())
