"""Locks on rows: who holds them, who waits, and which wait would never end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from gantrymq.simulation.database.errors import DEADLOCK, LOCK_TIMEOUT, Error

Owner = Hashable
"""A transaction."""


@dataclass(slots=True, eq=False)
class _Lock:
    exclusive: bool = False
    holders: dict[Owner, None] = field(default_factory=dict)
    waiting: deque[_Wait] = field(default_factory=deque)

    def admits(self, owner: Owner, exclusive: bool) -> bool:
        others = [holder for holder in self.holders if holder is not owner]
        return not others or not (exclusive or self.exclusive)


@dataclass(slots=True, eq=False)
class _Wait:
    owner: Owner
    exclusive: bool
    granted: asyncio.Future[None]


class RowLocks:
    """All locks of a server. A transaction keeps its locks until it ends."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._locks: dict[Hashable, _Lock] = {}
        self._waits: dict[Owner, _Lock] = {}

    async def take(self, owner: Owner, row: Hashable, *, exclusive: bool, patience_s: float | None) -> None:
        """Wait for the lock, ``patience_s`` at most. Raises Error for a deadlock, and when the time is over."""
        lock = self._locks.setdefault(row, _Lock())
        if owner in lock.holders and lock.exclusive:
            return
        if lock.admits(owner, exclusive) and (not lock.waiting or owner in lock.holders):
            self._grant(lock, owner, exclusive)
            return
        if self._is_deadlock(owner, lock):
            raise Error(DEADLOCK, "deadlock detected")
        await self._wait(lock, _Wait(owner, exclusive, self._loop.create_future()), patience_s)

    async def _wait(self, lock: _Lock, wait: _Wait, patience_s: float | None) -> None:
        def expire() -> None:
            if not wait.granted.done():
                wait.granted.set_exception(Error(LOCK_TIMEOUT, "the lock was not granted in time"))

        timer = None if patience_s is None else self._loop.call_later(patience_s, expire)
        lock.waiting.append(wait)
        self._waits[wait.owner] = lock
        try:
            await wait.granted
        finally:
            self._waits.pop(wait.owner, None)
            if timer is not None:
                timer.cancel()
            if wait in lock.waiting:
                lock.waiting.remove(wait)
                self._pass_on(lock)

    def release(self, owner: Owner) -> None:
        """The transaction has ended."""
        for row, lock in list(self._locks.items()):
            if owner in lock.holders:
                del lock.holders[owner]
                self._pass_on(lock)
                if not lock.holders and not lock.waiting:
                    del self._locks[row]

    def _grant(self, lock: _Lock, owner: Owner, exclusive: bool) -> None:
        lock.exclusive = exclusive or (lock.exclusive and owner in lock.holders)
        lock.holders[owner] = None

    def _pass_on(self, lock: _Lock) -> None:
        while lock.waiting:
            wait = lock.waiting[0]
            if not wait.granted.done():
                if not lock.admits(wait.owner, wait.exclusive):
                    return
                self._grant(lock, wait.owner, wait.exclusive)
                wait.granted.set_result(None)
            lock.waiting.popleft()

    def _is_deadlock(self, owner: Owner, lock: _Lock) -> bool:
        """Whether somebody in front of us waits, over however many others, for us."""
        found, looked_at = [lock], [lock]
        while found:
            following = found.pop()
            for other in [*following.holders, *(wait.owner for wait in following.waiting)]:
                if other is owner:
                    if following is not lock:
                        return True
                    continue
                onward = self._waits.get(other)
                if onward is not None and onward not in looked_at:
                    looked_at.append(onward)
                    found.append(onward)
        return False
