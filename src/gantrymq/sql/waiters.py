"""How a local transaction waits for the client: in a thread of its own, or in a greenlet on the client's event loop.

SQLAlchemy runs its synchronous code on an event loop in greenlets, which may wait for coroutines (``await_only``).
So one implementation serves Session and AsyncSession.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from gantrymq.client.connection.portal import Portal

T = TypeVar("T")


class ThreadWaiter:
    """For blocking code: the client's event loop runs in the thread of all blocking clients."""

    def __init__(self, portal: Callable[[], Portal]) -> None:
        """``portal``: raises Closed or UsedAfterFork when the client cannot be used."""
        self._portal = portal

    def wait(self, work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        return self._portal().call(work, *arguments)

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        self._portal().post(function, *arguments)


class GreenletWaiter:
    """For SQLAlchemy's asyncio extension: we are in a greenlet on the client's own event loop."""

    def wait(self, work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        from sqlalchemy.util import await_only

        return await_only(work(*arguments))

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        function(*arguments)
