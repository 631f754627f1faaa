"""One client for each user of the brokers, however many pages of this user are open.

A client is opened by the first request of its user. It is closed when nothing of the user is running and the user has
logged out, or has not asked anything for a while; the next request opens another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from gantrymq.protocol.signature import Account
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.tasks import TaskGroupOwner

T = TypeVar("T")

IDLE_S: Final = 300.0


@dataclass(slots=True)
class _Opened(Generic[T]):
    client: T
    stack: AsyncExitStack
    running: int = 0
    """Requests that use it now."""
    used: float = 0.0


class Clients(Generic[T]):
    """By account. Clients are opened one after the other, and nothing is awaited between finding a client and counting
    its use. So two requests never open two clients, and no client is closed while a request uses it."""

    def __init__(
        self,
        clock: Clock,
        open_client: Callable[[Account], AbstractAsyncContextManager[T]],
        is_logged_in: Callable[[Account], bool],
    ) -> None:
        self._clock = clock
        self._open_client = open_client
        self._is_logged_in = is_logged_in
        self._opened: dict[Account, _Opened[T]] = {}
        self._turn = asyncio.Lock()
        self._tasks = TaskGroupOwner("clients of users")

    def __len__(self) -> int:
        return len(self._opened)

    @asynccontextmanager
    async def used(self, account: Account) -> AsyncIterator[T]:
        """The client of this account, which stays open meanwhile."""
        opened = await self._found(account)
        try:
            yield opened.client
        finally:
            opened.running -= 1
            opened.used = self._clock.monotonic()
            self.sweep()

    async def _found(self, account: Account) -> _Opened[T]:
        async with self._turn:
            opened = self._opened.get(account)
            if opened is None:
                stack = AsyncExitStack()
                opened = _Opened(await stack.enter_async_context(self._open_client(account)), stack)
                self._opened[account] = opened
            opened.running += 1
            return opened

    def sweep(self) -> None:
        """Close those that nobody needs any more."""
        now = self._clock.monotonic()
        for account, opened in list(self._opened.items()):
            if opened.running:
                continue
            if not self._is_logged_in(account) or now - opened.used > IDLE_S:
                del self._opened[account]
                self._tasks.start("close", opened.stack.aclose())

    async def close(self) -> None:
        """Close all of them, when the console ends."""
        opened, self._opened = list(self._opened.values()), {}
        for one in opened:
            await one.stack.aclose()
        await self._tasks.stop()
