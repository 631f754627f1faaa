"""The same as ``local`` and ``enlistment`` for a database that is asked with ``await``. The steps are the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final, TypeVar

from gantrymq.client.listener import ListenerAnswer
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import Closed, TransactionBroken, TransactionClaimed, TransactionTooOld
from gantrymq.message.message import Message, MessageView
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.runtime.clock import Clock, SystemClock
from gantrymq.runtime.rng import Rng, SystemRng
from gantrymq.sql.rows import transaction_id
from gantrymq.sql.rows.tables import ddl
from gantrymq.sql.rules import steps
from gantrymq.sql.rules.broken import ELSEWHERE, refused
from gantrymq.sql.rules.claim import Answer, Failed, Query, Rows
from gantrymq.sql.rules.creation import create
from gantrymq.sql.rules.outcomes import IDENTITY_BYTES, Outcomes, Statement, failed
from gantrymq.sql.transaction.checker import asked, told
from gantrymq.sql.transaction.database import AsyncDatabase
from gantrymq.sql.transaction.enlistment import FORGOTTEN, LEFT, Stage, marks_of
from gantrymq.sql.transaction.local import TransactionsConfig, last_moment
from gantrymq.sql.transaction.own_loop import OwnLoop

T = TypeVar("T")
AsyncInsert = Callable[[Statement], Awaitable[int]]
"""As ``Insert``."""


async def perform(work: Generator[Any, Any, T], carry_out: Callable[[Any], Coroutine[Any, Any, Any]]) -> T:
    """Run steps to their end; ``carry_out`` does each of them, and its errors are raised into the steps."""
    try:
        step = next(work)
        while True:
            try:
                got = await carry_out(step)
            except Exception as error:  # noqa: BLE001 - it belongs to the steps, which end with it
                step = work.throw(error)
            else:
                step = work.send(got)
    except StopIteration as end:
        done: T = end.value
        return done


class AsyncLocal:
    """The database of one AsyncTransactions object. Call ``open`` first."""

    def __init__(
        self,
        database: AsyncDatabase,
        settings: TransactionsConfig,
        clock: Clock | None = None,
        rng: Rng | None = None,
    ) -> None:
        self.database: Final = database
        self.settings: Final = settings
        self.clock: Final[Clock] = clock or SystemClock()
        self.rng: Final[Rng] = rng or SystemRng()

    async def open(self) -> None:
        """Find out what the database is. Raises ConfigError when the outcome table is missing."""
        self.outcomes = Outcomes(
            await self.database.dialect(), self.settings.group, self.settings.table,
            round(self.settings.claim_timeout * 1000),
        )  # fmt: skip
        self.identity = await perform(self.outcomes.identify(self.rng.token(IDENTITY_BYTES).hex()), self.alone)
        await perform(self.outcomes.find_place(), self.alone)

    async def create_tables(self) -> None:
        """Create both tables unless they exist, and the row with the database's identity."""
        kind = (await self.database.dialect()).kind
        await perform(create(ddl(kind, self.settings.table, self.settings.inbox_table)), self.database.alone)
        await self.open()

    async def alone(self, statements: list[Statement]) -> Rows | Failed:
        """Statements on a connection of their own; what a database says against it is a value."""
        try:
            return await self.database.alone(statements)
        except Exception as error:  # noqa: BLE001 - ``failed`` raises what no database said
            return failed(error)

    async def ask(self, query: Query, which: str) -> Rows | Failed:
        """A query of the claim."""
        return await self.alone(self.outcomes.query(query, which))

    def enlist(self, client: TransactionProducer) -> AsyncEnlistment:
        """A new local transaction with messages."""
        return AsyncEnlistment(self, client)


class AsyncOutcomeChecker:
    """See ``OutcomeChecker``."""

    decisive: Final = True

    def __init__(self, local: AsyncLocal) -> None:
        self._local = local

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        """Never called: local transactions run in the user's own code."""
        raise NotImplementedError("local transactions are run by gantrymq.sql.AsyncTransactions")

    async def check_local_transaction(self, message: MessageView) -> ListenerAnswer:
        """COMMIT and ROLLBACK are final. Anything that is not certain is UNKNOWN with a reason."""

        async def carry_out(step: steps.Ask) -> Rows | Failed:
            return await self._local.ask(step.query, step.transaction_id)

        return told(message, await perform(asked(message), carry_out))


class AsyncEnlistment:
    """A local transaction and its half messages, on the event loop of the client. See ``Enlistment`` for the stages."""

    def __init__(self, local: AsyncLocal, client: TransactionProducer) -> None:
        made = transaction_id.make(local.clock.wall_ms(), local.rng.below(transaction_id.CHANCES))
        self.transaction_id: Final = made
        self.stage = Stage.OPEN
        self.answer: Answer | None = None
        """How it ended."""
        self.mark = ""
        """See ``Enlistment.mark``."""
        self._local = local
        self._own = OwnLoop()
        self._marks = marks_of(made, local.identity, local.settings.longest_transaction)
        self._halves = client.halves(local.settings.longest_transaction)
        assert self._halves.longest is not None
        self._longest = self._halves.longest
        self._check = client.check
        self._levels: dict[int, object] = {}
        """For each message that was not dropped, the savepoint it was sent in."""
        self._sent = 0
        self._last_moment = last_moment(local.clock, local.settings)
        self._left: ListenerAnswer | None = LEFT
        """What the brokers are told when nobody holds this object any longer; None: they were told already."""

    def __del__(self) -> None:
        left = getattr(self, "_left", None)
        if left is not None:
            self._halves.abandon(left)

    def __len__(self) -> int:
        """How many messages wait for its end."""
        return len(self._levels)

    def send(self, message: Message, level: object = None) -> None:
        """Send the half message now, without waiting for it. Raises MessageIllegal, TransactionClaimed, Closed during
        the commit, and ConfigError on another event loop."""
        if self.stage is not Stage.OPEN:
            raise Closed("this transaction is committing, and takes no more messages")
        if self._longest.given_up:
            raise TransactionClaimed(self.transaction_id)
        self._own.check()
        self._check(message)
        self._halves.add(self._sent, message.with_properties({**message.properties, **self._marks}))
        self._levels[self._sent] = level
        self._sent += 1

    def drop(self, belongs: Callable[[object], bool]) -> None:
        """Roll back the messages whose level ``belongs`` to a savepoint that was rolled back."""
        gone = [number for number, level in self._levels.items() if belongs(level)]
        for number in gone:
            del self._levels[number]
        self._halves.drop(gone)

    async def prepare(self, insert: AsyncInsert) -> None:
        """Before the commit: wait for the halves, then insert the outcome row with ``insert``."""
        self._own.check()
        if self._levels and self.stage is Stage.OPEN:
            if self._local.clock.monotonic() > self._last_moment:
                raise TransactionTooOld(self.transaction_id)
            await perform(steps.prepare(self.transaction_id), lambda step: self._carry_out(step, insert))

    async def committed(self) -> Answer:
        """The database has committed: end the halves. Raises TransactionConflict."""
        return await self._end(steps.committed())

    async def rolled_back(self) -> Answer:
        """It is certain that the database has not committed, and never will: no commit was sent to it."""
        return await self._end(steps.rolled_back())

    async def failed(self) -> Answer:
        """The database did not say that it committed: roll back, or ask it what happened."""
        if self.stage is Stage.PREPARED:
            return await self._end(steps.settle(self.transaction_id, self._local.identity))
        return await self._end(steps.rolled_back())

    async def _end(self, ending: steps.Steps) -> Answer:
        if self.answer is None:
            self.answer = await perform(ending, self._carry_out)
        return self.answer

    async def _carry_out(self, step: steps.Step, insert: AsyncInsert | None = None) -> Rows | Failed | None:
        match step:
            case steps.HalvesStored():
                await self._halves.stored()
            case steps.InsertOutcome(which):
                assert insert is not None
                if not self._longest.commit():
                    raise TransactionClaimed(which)
                self._left = FORGOTTEN
                self.stage = Stage.PREPARED  # from here on a failure may be one of a commit: the row decides
                try:
                    found = await insert(self._local.outcomes.insert(which, self.mark))
                except Exception as error:
                    raised = refused(error, which, self._local.outcomes.table)
                    if raised is None:
                        raise
                    raise raised from error
                if not found:
                    raise TransactionBroken(ELSEWHERE)
            case steps.Ask(query, which):
                return await self._local.ask(query, which)
            case steps.EndHalves(answer):
                self._halves.begin_to_end(ListenerAnswer(answer.state, remark=answer.reason))
                # From here on it ends so, whether somebody waits or not.
                self.stage, self.answer, self._left = Stage.ENDED, answer, None
                if self._local.settings.wait_for_brokers:
                    await self._halves.ended()
        return None
