"""What the tasks of an event loop wait for, as far as it matters for the passing of time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

_CLIENT: Final = ("gantrymq.client.", "gantrymq.admin")
_NEITHER: Final = ("asyncio", "contextlib", "gantrymq.")
_PUBLIC: Final = frozenset(
    f"gantrymq.client.{name}"
    for name in ("producer", "transaction_producer", "push_consumer", "pull_consumer", "lite_pull_consumer",
                 "simple_consumer", "connection.lifetime")
)  # fmt: skip
_LISTENER: Final = "TaskPool._consume"
_CHECK: Final = "CheckBack._ask"
_WAIT_BY_DESIGN: Final = frozenset(
    {
        "LitePullConsumer.poll",
        "PullConsumer.pull",
        "PullConsumer.pull_raw",
        "SimpleConsumer.receive",
        "LiteSimpleConsumer.receive",
    }
)
_RUNS: Final = "_run_until_complete_cb"
_RUNS_OF_ANYIO: Final = "_run_tests_and_fixtures"
_IN_A_THREAD: Final = "call_in_thread"
"""The user's code runs in a thread, and this waits for it."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was found on one loop."""

    listeners: tuple[str, ...]
    """Where (``file:line``) calls of ``async def`` listeners wait for something else than a client."""
    wanted: bool
    """Whether code of the test waits for a client, which may need time to pass."""


def look_at(loop: asyncio.AbstractEventLoop, *, of_the_test: bool) -> Look:
    """To be called in the thread of ``loop``. ``of_the_test``: whether code of the test may run there."""
    listeners, wanted = [], False
    for task in asyncio.all_tasks(loop):
        code = getattr(task.get_coro(), "cr_code", None)
        root = "" if code is None else code.co_qualname
        if root in (_LISTENER, _CHECK):
            frames = list(_frames(task))
            kinds = _kinds(frames)
            if kinds.endswith("u") or (root == _LISTENER and "u" not in kinds):
                listeners.append(_place(frames))
        elif of_the_test and not wanted and not _of_a_client(task):
            wanted = _wants_time(task)
    return Look(tuple(listeners), wanted)


def _wants_time(task: asyncio.Task[Any]) -> bool:
    """Whether a task of the test waits for a client, and time should pass for it.

    A loop that polls for messages in a task of its own waits by design; for the test itself time passes then, too.
    """
    frames = list(_frames(task))
    if not _kinds(frames).endswith("c"):
        return False
    polls = any(_kind(frame) == "c" and frame.f_code.co_qualname in _WAIT_BY_DESIGN for frame in frames)
    return not polls or _is_the_test(task, frames)


def _is_the_test(task: asyncio.Task[Any], frames: list[FrameType]) -> bool:
    """Whether it is what ``asyncio.run`` or the runner of a test plugin runs, and not a task that the test started."""
    callbacks = getattr(task, "_callbacks", None) or ()
    names = [getattr(entry[0] if isinstance(entry, tuple) else entry, "__name__", "") for entry in callbacks]
    return _RUNS in names or any(frame.f_code.co_name == _RUNS_OF_ANYIO for frame in frames)


def _of_a_client(task: asyncio.Task[Any]) -> bool:
    """Whether a client made the task for itself. One that runs a public method was made by the test."""
    frame = _of(task.get_coro(), "frame")
    if frame is None:
        return True
    public = _module(frame) in _PUBLIC and not frame.f_code.co_name.startswith("_")
    return _kind(frame) == "c" and not public


def _kinds(frames: Iterable[FrameType]) -> str:
    """A letter for each frame that matters, from the task's own coroutine to what it waits for."""
    return "".join(map(_kind, frames))


def _kind(frame: FrameType) -> str:
    """``c``: a client's code; ``u``: the user's; nothing: what both use."""
    module = _module(frame)
    if module.startswith(_CLIENT):
        return "u" if frame.f_code.co_name == _IN_A_THREAD else "c"
    return "" if module.startswith(_NEITHER) else "u"


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _place(frames: list[FrameType]) -> str:
    frame = next((frame for frame in reversed(frames) if _kind(frame) == "u"), frames[-1])
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _frames(task: asyncio.Future[Any], depth: int = 0) -> Iterator[FrameType]:
    """From a task's own coroutine to what it waits for in the end, over other tasks too."""
    if not isinstance(task, asyncio.Task):
        for child in getattr(task, "_children", ()) if depth < _DEEP else ():  # a gather
            yield from _frames(child, depth + 1)
        return
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = _of(awaited, "frame")
        if frame is not None:
            yield frame
        awaited = _of(awaited, "await") or getattr(awaited, "gi_yieldfrom", None)
    waits_for = getattr(task, "_fut_waiter", None)
    if waits_for is not None and depth < _DEEP:
        yield from _frames(waits_for, depth + 1)


_DEEP: Final = 20


def _of(awaited: Any, what: str) -> Any:
    for prefix in ("cr", "gi", "ag"):
        found = getattr(awaited, f"{prefix}_{what}", None)
        if found is not None:
            return found
    return None
