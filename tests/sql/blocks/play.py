"""Executes a block on a real database, and notes what the program knows of each unit.

Everything is a coroutine. For a way in that blocks, none of them ever waits, and ``at_once`` runs them.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

from gantrymq import Message
from gantrymq.errors import ConfigError, TransactionClaimed
from gantrymq.sql.rows.failures import Failure, read_failure
from tests.sql.blocks.grounds import Ground
from tests.sql.blocks.plan import Do, Step
from tests.sql.blocks.statements import BEHIND, FAILURES, PROGRAM, UNDONE

T = TypeVar("T")
OWN = "own"


class UserError(Exception):
    """What the program itself raises."""


class Impossible(Exception):
    """This way in, or this database, has no such thing: the step is left out."""


@dataclass(slots=True)
class Unit:
    """A row and its message."""

    number: int
    attempt: int
    has_row: bool = True
    transactional: bool = True
    inserted: bool = False
    sent: bool = False
    undone: bool = False
    doubtful: bool = False
    """It was undone as far as the program can know: a call has failed that may have undone it."""
    committed: str = ""
    told: bool = False
    """An error said, perhaps one that the program has caught, that rows of the block are committed."""


@dataclass(slots=True)
class Record:
    """What happened in one block."""

    topic: str
    units: list[Unit] = field(default_factory=list)
    errors: dict[int, BaseException | None] = field(default_factory=dict)
    """How each attempt ended."""
    attempt: int = 0
    asked: set[int] = field(default_factory=set)
    """Attempts in which ``send`` was called."""
    commits: bool = False
    """Something was committed inside of the block."""
    dirty: bool = False
    """The connection is not as it was: it must not be used by another block."""
    warnings: list[str] = field(default_factory=list)

    def since(self, first: int) -> list[Unit]:
        return [unit for unit in self.units[first:] if unit.attempt == self.attempt]


class Savepoint(Protocol):
    async def rollback(self) -> None:
        """Roll back what was done in it, without an error."""


class Hands(Protocol):
    """What a program holds in one block."""

    async def execute(self, statement: str) -> Any:
        """Execute a statement; the first value of its first row, if there is one."""

    async def insert(self, table: str, number: int) -> None: ...

    async def send(self, message: Message) -> None: ...

    def savepoint(self, kind: str) -> AbstractAsyncContextManager[Savepoint]:
        """Raises Impossible."""

    async def call(self, kind: str) -> str:
        """A method of the library's object. Returns ``own``, ``behind``, ``undone`` or nothing. Raises Impossible."""

    def cut(self, kind: str) -> None:
        """Cut the connection at the next COMMIT, or now. Raises Impossible."""


def at_once(work: Awaitable[T]) -> T:
    """The result of a coroutine that never waits."""
    steps: Any = work.__await__()
    try:
        next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("a blocking way in has waited")


def is_refusal(error: BaseException) -> bool:
    """Whether it refuses a message because the session is in no transaction, and says what that did to earlier rows."""
    refused = isinstance(error, ConfigError) or type(error).__name__ == "TransactionManagementError"
    return refused and "are committed" in str(error)


def says_so(error: BaseException | None) -> bool:
    """Whether an error, or the one that was on its way before it, says that rows of the block are committed: the
    transaction was ended inside, or is none."""
    if error is None:
        return False
    broken = "TransactionBroken" in {kind.__name__ for kind in type(error).__mro__}
    return broken or is_refusal(error) or says_so(error.__context__)


class Player:
    """Carries out the steps of one attempt."""

    numbers = itertools.count(1)

    def __init__(self, hands: Hands, ground: Ground, record: Record) -> None:
        self._hands = hands
        self._ground = ground
        self._record = record
        self._table = "items"
        self._later = ""
        """What has committed units that come later: once the transaction has ended behind our back, nobody promises
        how the driver commits what follows."""
        self._refused = False
        """The program was told that it is in no transaction, and goes on: what follows commits by itself, too."""

    async def steps(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            try:
                await self._does[step.do](self, step)
            except Impossible:
                continue
            except Exception as error:
                if says_so(error):
                    for unit in self._record.since(0):
                        unit.told = True
                if not step.caught:
                    raise

    def _new(self, **facts: Any) -> Unit:
        unit = Unit(next(self.numbers), self._record.attempt, committed=self._later, told=self._refused, **facts)
        self._record.units.append(unit)
        return unit

    async def _pay(self, step: Step) -> None:
        myisam = step.ends == "myisam" and self._ground.kind == "mariadb"
        unit = self._new(transactional=not myisam)
        if step.kind == "message_first":
            await self._send_unit(unit)
        else:
            await self._insert(unit, myisam)
        before = unit.undone, unit.committed
        await self.steps(step.inner)
        if (unit.undone, unit.committed) != before:
            return  # its first half is another transaction's: what came now would not belong to it
        if step.kind == "message_first":
            await self._insert(unit, myisam)
        else:
            await self._send_unit(unit)

    async def _insert(self, unit: Unit, myisam: bool) -> None:
        await self._hands.insert("items_myisam" if myisam else self._table, unit.number)
        unit.inserted = True
        if self._later and not unit.undone:  # the transaction of its message has ended before
            unit.committed = unit.committed or self._later

    async def _send_unit(self, unit: Unit) -> None:
        self._record.asked.add(self._record.attempt)
        try:
            await self._hands.send(Message(self._record.topic, b"%d" % unit.number))
        except Exception as error:
            if is_refusal(error):
                self._was_none()
                self._refused = True
                self._later = self._later or BEHIND
            raise
        unit.sent = True

    async def _send(self, step: Step) -> None:
        await self._send_unit(self._new(has_row=False))

    async def _savepoint(self, step: Step) -> None:
        first = len(self._record.units)
        try:
            async with self._hands.savepoint(step.kind) as made:
                await self.steps(step.inner)
                if step.ends == "error":
                    raise UserError("in a savepoint")
                if step.ends == "rollback":
                    self._undo(first)  # before: psycopg's own rollback leaves the savepoint by an error
                    await made.rollback()
        except BaseException:
            self._undo(first)
            raise

    def _undo(self, first: int = 0) -> None:
        for unit in self._record.since(first):
            if unit.committed != OWN:
                unit.undone = True

    def _committed(self, how: str) -> None:
        self._record.commits = True
        for unit in self._record.since(0):
            again = how == OWN and not unit.undone  # what a session commits is what its transaction has still
            if (unit.doubtful or not unit.undone) and (not unit.committed or again):
                unit.committed = how

    def _was_none(self) -> None:
        """The refusal says that rows from before are committed: so a rollback of the program has undone none of them.
        Where a message was taken, there was a transaction."""
        for unit in self._record.since(0):
            if not unit.sent:
                unit.committed = unit.committed or BEHIND
        self._committed(BEHIND)

    async def _fail(self, step: Step) -> None:
        await self._hands.execute(FAILURES[step.kind])

    async def _statement(self, step: Step) -> None:
        found = self._ground.statement(step.kind)
        if found is None:
            raise Impossible
        self._record.dirty |= found.stays
        for number, text in enumerate(found.texts):
            try:
                await self._hands.execute(text)
            except Exception as error:
                # Its answer was lost: it may have committed, and no error can say more than that.
                if number == 0 and found.effect in (BEHIND, PROGRAM) and read_failure(error) is Failure.DISCONNECTED:
                    self._effect(PROGRAM)
                raise
            if number == 0:
                self._effect(found.effect)
        self._table = found.table or self._table

    def _effect(self, effect: str) -> None:
        if effect == UNDONE:
            self._undo()
            self._later = PROGRAM
        elif effect in (BEHIND, PROGRAM, OWN):
            self._committed(effect)
            self._later = "" if effect == OWN else effect  # a commit with its messages begins a new transaction

    async def _call(self, step: Step) -> None:
        try:
            self._effect(await self._hands.call(step.kind))
        except Impossible:
            raise
        except BaseException:
            for unit in self._record.since(0):
                unit.doubtful = unit.doubtful or not unit.undone
            self._undo()
            raise

    async def _server(self, step: Step) -> None:
        try:
            await self._rolled_back(step)
        except Impossible:
            raise
        except Exception:
            self._later = self._later if step.kind == "lock_timeout" else BEHIND  # that one undoes its statement only
            raise

    async def _rolled_back(self, step: Step) -> None:
        if step.kind == "deadlock" and self._ground.kind == "mariadb":
            rival = self._ground.deadlock_rival()
            try:
                await self._hands.execute(rival.WANTED)
                rival.want()
                await self._hands.execute(rival.HELD)
            finally:
                rival.close()
        elif step.kind == "lock_timeout" and self._ground.kind == "mariadb":
            rival = self._ground.deadlock_rival()
            try:
                await self._hands.execute("SELECT n FROM stock WHERE id = 30 FOR UPDATE NOWAIT")
            finally:
                rival.want()
                rival.close()
        elif step.kind == "or_rollback" and self._ground.kind == "sqlite":
            await self._hands.execute("INSERT OR ROLLBACK INTO items VALUES (0)")
        elif step.kind == "trigger" and self._ground.kind == "sqlite":
            await self._hands.execute("INSERT INTO scratch VALUES (-1)")
        else:
            raise Impossible

    async def _die(self, step: Step) -> None:
        if step.kind == "terminated":
            asked = {"postgresql": "SELECT pg_backend_pid()", "mariadb": "SELECT CONNECTION_ID()"}.get(
                self._ground.kind
            )
            if asked is None:
                raise Impossible
            self._ground.kill_backend(int(await self._hands.execute(asked)))
        else:
            self._hands.cut(step.kind)

    async def _raise(self, step: Step) -> None:
        if step.kind == "error":
            raise UserError("of the block")
        if self._record.attempt == 1:
            raise TransactionClaimed("0" * 32)  # what ``run`` tries again

    _does: ClassVar[dict[Do, Callable[[Player, Step], Awaitable[None]]]] = {
        Do.PAY: _pay, Do.SEND: _send, Do.SAVEPOINT: _savepoint, Do.FAIL: _fail, Do.STATEMENT: _statement,
        Do.CALL: _call, Do.SERVER: _server, Do.DIE: _die, Do.RAISE: _raise,
    }  # fmt: skip
