"""What the tasks of an event loop wait for, as far as it matters for the passing of time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

_CLIENT: Final = ("gantrymq.client.", "gantrymq.admin")
_NEITHER: Final = ("asyncio", "contextlib", "gantrymq.")
_PUBLIC: Final = frozenset(
    f"gantrymq.client.{name}"
    for name in ("producer", "transaction_producer", "push_consumer", "pull_consumer", "lite_pull_consumer",
                 "connection.lifetime")
)  # fmt: skip
_LISTENER: Final = "TaskPool._consume"
_CHECK: Final = "CheckBack._ask"
_IN_A_THREAD: Final = "call_in_thread"
"""The user's code runs in a thread, and this waits for it."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was found on one loop."""

    listeners: int
    """Calls of ``async def`` listeners that wait for something else than a client."""
    wanted: bool
    """Whether code of the test waits for a client, which may need time to pass."""


def look_at(loop: asyncio.AbstractEventLoop, *, of_the_test: bool) -> Look:
    """To be called in the thread of ``loop``. ``of_the_test``: whether code of the test may run there."""
    listeners, wanted = 0, False
    for task in asyncio.all_tasks(loop):
        code = getattr(task.get_coro(), "cr_code", None)
        root = "" if code is None else code.co_qualname
        if root in (_LISTENER, _CHECK):
            kinds = _kinds(task)
            listeners += kinds.endswith("u") or (root == _LISTENER and "u" not in kinds)
        elif of_the_test and not wanted and not _of_a_client(task):
            wanted = _kinds(task).endswith("c")
    return Look(listeners, wanted)


def _of_a_client(task: asyncio.Task[Any]) -> bool:
    """Whether a client made the task for itself. One that runs a public method was made by the test."""
    frame = _of(task.get_coro(), "frame")
    if frame is None:
        return True
    module = frame.f_globals.get("__name__", "")
    return _kind(module, frame.f_code) == "c" and (module not in _PUBLIC or frame.f_code.co_name.startswith("_"))


def _kinds(task: asyncio.Task[Any]) -> str:
    return "".join(_kind(*frame) for frame in _frames(task))


def _kind(module: str, code: CodeType) -> str:
    """``c``: a client's code; ``u``: the user's; nothing: what both use."""
    if module.startswith(_CLIENT):
        return "u" if code.co_name == _IN_A_THREAD else "c"
    return "" if module.startswith(_NEITHER) else "u"


def _frames(task: asyncio.Future[Any], depth: int = 0) -> Iterator[tuple[str, CodeType]]:
    """From a task's own coroutine to what it waits for in the end, over other tasks too."""
    if not isinstance(task, asyncio.Task):
        for child in getattr(task, "_children", ()) if depth < _DEEP else ():  # a gather
            yield from _frames(child, depth + 1)
        return
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = _of(awaited, "frame")
        if frame is not None:
            yield frame.f_globals.get("__name__", ""), frame.f_code
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
