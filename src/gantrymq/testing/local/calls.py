"""How threads and other event loops have work done on the loop of a local cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from gantrymq.client.connection import portal
from gantrymq.errors import Closed, UsedAfterFork

T = TypeVar("T")


class Calls:
    """Carries coroutines to the loop and their results back. An interrupt (Ctrl-C) gives the work up."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pid = os.getpid()
        self.open = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work returns. It must need nobody else and no time: then an event loop may call this, too."""
        return self._result(self._submit(work))

    def wait(self, work: Coroutine[Any, Any, T], name: str) -> T:
        """The same for work that waits for others, as ``name`` does; not in a thread whose event loop it waits for."""
        if asyncio._get_running_loop() is not None:
            work.close()
            raise RuntimeError(
                f"{name}() would stop the event loop that it has to wait for; write: await gantry.{name}_async(...)"
            )
        return self._result(self._submit(work))

    async def awaited(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for the event loop of a test."""
        return await asyncio.wrap_future(self._submit(work))

    @staticmethod
    def _result(future: Future[T]) -> T:
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            if os.getpid() != self._pid:
                raise UsedAfterFork("this LocalCluster belongs to the parent process; start one after the fork")
            if not self.open:
                raise Closed("this LocalCluster is not open; use it in a `with` block")
            portal.check_thread()
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except BaseException:
            work.close()
            raise
