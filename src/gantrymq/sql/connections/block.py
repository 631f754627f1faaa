"""One local transaction on a connection of a driver, as steps. ``transactions`` runs them in a thread,
``async_transactions`` on an event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, MutableSet
from contextlib import suppress
from typing import Any, ClassVar

from gantrymq.errors import Closed, ConfigError, TransactionBroken
from gantrymq.message.message import Message
from gantrymq.sql.connections.savepoints import LaterSavepoints, WatchedSavepoints
from gantrymq.sql.rules.failed_commit import error_after

log = logging.getLogger("gantrymq.sql")


class ConnectionBlock:
    """What ConnectionTransaction and AsyncConnectionTransaction do."""

    _in_use: ClassVar[MutableSet[Any]]
    """What stands for each connection that a block commits."""
    _with: ClassVar[str]
    """With what a block begins, for errors."""
    _on_loop: ClassVar = False
    """What driver and enlistment return is awaited. In a thread, their calls have waited already."""
    _enlistment: Any = None
    _driver: Any
    """A Driver, or an AsyncDriver."""
    _savepoints: WatchedSavepoints

    def __init__(self, enlist: Callable[[], Any], *, ours: bool) -> None:
        """``ours``: the connection is closed at the end of the block."""
        self._enlist = enlist
        self._ours = ours
        self._connection: Any = None
        self._held: Any = None
        self._used = False
        self._made = 0
        self._broken: BaseException | None = None

    async def _whole(self, function: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        """Run steps to their end, also when the block is cancelled meanwhile."""
        await (asyncio.shield(function(*arguments)) if self._on_loop else function(*arguments))

    @property
    def connection(self) -> Any:
        """The connection to work with. Its ``commit`` belongs to the block."""
        if self._connection is None:
            article = "an" if self._with.startswith("a") else "a"
            raise Closed(f"this transaction is not running: use it in {article} `{self._with}` block, once")
        return self._connection

    @property
    def transaction_id(self) -> str | None:
        """The id of the outcome row; None before the first message."""
        found: str | None = None if self._enlistment is None else self._enlistment.transaction_id
        return found

    def send(self, *messages: Message, order_key: str | None = None) -> None:
        """Send these messages when the block commits, and never when it does not.

        The half messages are sent now, and the commit waits for them. Raises MessageIllegal. ``order_key``: messages
        of one key become visible in the order of the commits. They go by row (docs/sql.md, Order), and so do all others
        of the block. Raises ConfigError without the columns that it needs.
        """
        _ = self.connection
        if self._enlistment is None:
            self._enlistment = self._enlist()
        for message in messages:
            self._enlistment.send(message, self._savepoints.level, order_key)

    def _drop(self, belongs: Callable[[object], bool]) -> None:
        if self._enlistment is not None:
            self._enlistment.drop(belongs)

    # Statements.

    def _execute(self, statement: str, parameters: Any = None) -> Any:
        """What a statement returns; on an event loop, to be awaited."""
        _ = self.connection
        self._driver.check_runs()
        if not self._driver.sees_all:
            self._savepoints.executes(statement)
        return self._driver.run(statement, parameters)

    async def _begin_savepoint(self) -> str:
        self._made += 1
        name = f"gantrymq_{self._made}"
        await self._do(f"SAVEPOINT {name}")
        return name

    async def _do(self, statement: str) -> None:
        done = self._execute(statement)
        if self._on_loop:
            await done

    async def _roll_back_to(self, name: str) -> None:
        self._savepoints.executes(f"ROLLBACK TO SAVEPOINT {name}")  # also when the connection is lost
        try:
            await self._do(f"ROLLBACK TO SAVEPOINT {name}")
            await self._do(f"RELEASE SAVEPOINT {name}")
        except BaseException as error:
            self._broken = error
            if not isinstance(error, Exception):  # else the caller's own error is raised, and the block cannot commit
                raise

    # Begin and end.

    def _begin_once(self) -> None:
        if self._used:
            raise ConfigError("this transaction was used already; begin another one with transactions.begin()")
        self._used = True

    async def _enter(self, connection: Any, driver: Any, held: Any) -> None:
        """``held``: what stands for the connection among those in use."""
        if held in self._in_use:
            raise ConfigError(
                f"a block commits this connection already; inside of it, use `{self._with} tx.savepoint():`"
            )
        self._in_use.add(held)
        self._connection, self._driver, self._held = connection, driver, held
        self._savepoints = (LaterSavepoints if driver.tells_later else WatchedSavepoints)(self._drop)
        try:
            begun = driver.begin()
            if self._on_loop:
                await begun
            driver.watch(self._savepoints)
        except BaseException:
            await self._leave()
            raise

    async def _exit(self, failed: bool) -> None:
        _ = self.connection
        try:
            if failed:
                await self._whole(self._leave_with_error)
            else:
                await self._commit()
        finally:
            await (asyncio.shield(self._leave()) if self._on_loop else self._leave())

    async def _commit(self) -> None:
        enlistment, commits = self._enlistment, False
        try:
            if self._broken is not None:
                raise TransactionBroken("a savepoint of this transaction could not be rolled back") from self._broken
            if self._driver.tells_later:
                await self._savepoints.settled()
            done = self._driver.verify(enlistment is not None and len(enlistment) > 0)
            if self._on_loop:
                await done
            if enlistment is not None:
                self._savepoints.check()
                enlistment.mark = self._driver.mark
                done = enlistment.prepare(self._driver.insert)
                if self._on_loop:
                    await done
            commits = True
            done = self._driver.commit()
            if self._on_loop:
                await done
        except BaseException as error:
            await self._whole(self._give_up, not commits)
            raised = error_after(error, enlistment)
            if raised is error:
                raise
            if raised is not None:
                raise raised from error
        else:
            if enlistment is not None:
                done = enlistment.committed()
                if self._on_loop:
                    await done

    async def _leave_with_error(self) -> None:
        """Roll back. Raises when a part of the block was committed before: the row would be there, and the message not.
        A deadlock has rolled everything back, and is raised as it is."""
        broken: TransactionBroken | None = None
        try:
            done = self._driver.verify_at_rollback()
            if self._on_loop:
                await done
        except TransactionBroken as found:
            broken = found
        except Exception:  # noqa: BLE001 - the connection was lost, and the server rolls back
            log.debug("a connection was lost before the rollback")
        await self._give_up(certain=True)
        if broken is not None:
            raise broken

    async def _give_up(self, certain: bool) -> None:
        """Roll back, then settle. Who sees the error of the block wants that one, and not what comes of it here.

        ``certain``: no commit was tried.
        """
        try:
            done = self._driver.rollback()
            certain = bool(await done if self._on_loop else done) or certain
        except Exception:  # noqa: BLE001 - as above; a connection in an unknown state must not keep its locks
            with suppress(Exception):
                await self._close()
        if self._enlistment is not None:
            try:
                done = self._enlistment.rolled_back() if certain else self._enlistment.failed()
                if self._on_loop:
                    await done
            except Exception as error:  # noqa: BLE001 - as above
                log.warning("brokers will ask how transaction %s ended: %r", self.transaction_id, error)

    async def _leave(self) -> None:
        self._connection = None
        with suppress(Exception):
            self._driver.unwatch()
        self._in_use.discard(self._held)
        if self._ours:
            with suppress(Exception):  # it may be closed already, and what the block did is decided
                await self._close()

    async def _close(self) -> None:
        done = self._driver.close()
        if self._on_loop:
            await done
