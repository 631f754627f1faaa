"""How a local transaction waits for the client: in a thread, in a greenlet on the client's event loop, or on that loop.

SQLAlchemy runs its synchronous code on an event loop in greenlets, which may wait for coroutines (``await_only``).
So one implementation serves Session and AsyncSession.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from gantrymq.client.connection.portal import Portal
from gantrymq.client.sending.halves import Halves, settle
from gantrymq.errors import UsedAfterFork
from gantrymq.sql.transaction.own_loop import OwnLoop


class Waiter(Protocol):
    """How a local transaction reaches the event loop of the client."""

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Run a function there, after those that were posted before."""

    def begin(self, function: Callable[..., object], *arguments: Any) -> Any:
        """Run ``function(done, *arguments)`` there, after what was begun or posted before.

        What this returns waits until ``done(result, error)`` was called there: in a thread and in a greenlet by its
        call, on the event loop by ``await``. It returns the result or raises the error.
        """

    def until_stored(self, halves: Halves, count: int) -> Any:
        """What waits as that of ``begin(halves.when_stored)`` does, for a transaction in which ``count`` messages were
        sent and none was dropped."""


class ThreadWaiter:
    """For blocking code: the client's event loop runs in the thread of all blocking clients.

    It is reached also while the client is being closed, which waits for the local transactions that run.
    """

    def __init__(self, portal: Callable[[], Portal]) -> None:
        """``portal``: raises Closed or UsedAfterFork when the client cannot be used."""
        self._portal = portal()
        self._process = os.getpid()

    def begin(self, function: Callable[..., object], *arguments: Any) -> Callable[[], object]:
        """Its result raises Closed when all clients of the process are closed."""
        return self._here().ask(function, *arguments)

    def until_stored(self, halves: Halves, count: int) -> Callable[[], object]:
        return self._here().listen(halves.tell_thread, count)

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        self._here().post(function, *arguments)

    def _here(self) -> Portal:
        if os.getpid() != self._process:
            raise UsedAfterFork("this local transaction belongs to the parent process; begin one after the fork")
        return self._portal


class LoopWaiter(OwnLoop):
    """On the client's own event loop."""

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        function(*arguments)

    def until_stored(self, halves: Halves, count: int) -> Any:
        return self.begin(halves.when_stored)

    def begin(self, function: Callable[..., object], *arguments: Any) -> Any:
        waits: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        function(partial(settle, waits), *arguments)
        return waits


class GreenletWaiter(LoopWaiter):
    """For SQLAlchemy's asyncio extension: we are in a greenlet on that loop. Raises ConfigError on another one."""

    def begin(self, function: Callable[..., object], *arguments: Any) -> Any:
        self.check()
        return partial(_await, super().begin(function, *arguments))

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        self.check()
        function(*arguments)


def _await(waits: asyncio.Future[object]) -> object:
    from sqlalchemy.util import await_only

    return await_only(waits)
