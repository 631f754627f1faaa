"""One simulated process: everything that it started ends with it, in the middle of whatever it does."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from gantrymq.client.connection.outside import Outside
from gantrymq.runtime.clock import Timer

T = TypeVar("T")

_running: contextvars.ContextVar[Node | None] = contextvars.ContextVar("node", default=None)


class Node:
    """A process on a host. ``start`` runs code as part of it; ``kill`` is SIGKILL."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self.alive = True
        self.loop = loop
        self.tasks: set[asyncio.Task[Any]] = set()
        self._context = contextvars.copy_context()
        self._context.run(_running.set, self)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine as part of this process; everything it starts belongs to it, too."""
        return self._context.run(self.loop.create_task, work)

    def call(self, call: Callable[..., T], *arguments: Any) -> T:
        """Call something as part of this process, so that what it starts belongs to it."""
        return self._context.copy().run(call, *arguments)

    def kill(self) -> None:
        """Nothing of it goes on: no callback, and of its tasks only what Python itself unwinds."""
        self.alive = False
        for task in list(self.tasks):
            task.cancel()

    def unless_dead(self, call: Callable[[], None]) -> Callable[[], None]:
        """``call`` for as long as this process lives."""

        def guarded() -> None:
            if self.alive:
                call()

        return guarded


def own_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Have ``loop`` tell each task's process of it."""

    def make(loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **more)
        node = _running.get()
        if node is not None:
            node.tasks.add(task)
            task.add_done_callback(node.tasks.discard)
            if not node.alive:
                task.cancel()
        return task

    loop.set_task_factory(make)


class NodeClock:
    """Virtual time as one host's clock shows it: its wall clock may be wrong, and may jump."""

    def __init__(self, node: Node, epoch_ms: int) -> None:
        self._node = node
        self._epoch_ms = epoch_ms
        self.skew_ms = 0

    def wall_ms(self) -> int:
        return self._epoch_ms + self.skew_ms + int(self._node.loop.time() * 1000)

    def monotonic(self) -> float:
        return self._node.loop.time()

    def elapsed(self) -> float:
        return self._node.loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        return self._node.loop.call_later(seconds, self._node.unless_dead(call))

    def call_soon(self, call: Callable[[], None]) -> None:
        self._node.loop.call_soon(self._node.unless_dead(call))


@dataclass(frozen=True, slots=True)
class Process:
    """A process with its ways to the outside."""

    node: Node
    address: str
    clock: NodeClock
    outside: Outside
    name_servers: str
    """Addresses, as clients are given them."""
