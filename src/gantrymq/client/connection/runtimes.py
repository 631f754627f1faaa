"""Runtimes that replace threads, event loops or processes: which of them a client works in, and the sentence for the
others.

A blocking client waits in the calling thread for a thread with an event loop. gevent and eventlet replace threads by
greenlets, which never run while the event loop waits in the kernel; the process would stand still for ever. Replaced
sockets alone do no harm, because the event loop does not use them.
"""

from __future__ import annotations

import _thread
import asyncio
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

from gantrymq.errors import WrongRuntime

_REPLACES_THREADS: Final[dict[str, tuple[str, Callable[[Any], object], str]]] = {
    "gevent.monkey": (
        "gevent", lambda module: module.is_module_patched("threading") or module.is_module_patched("queue"),
        "monkey.patch_all(thread=False, queue=False)",
    ),
    "eventlet.patcher": (
        "eventlet", lambda module: module.is_monkey_patched("thread"), "eventlet.monkey_patch(thread=False)",
    ),
}  # fmt: skip
"""By the module that knows whether threads were replaced: the runtime, the question, and the call that works."""


def check_threads(owner: str) -> None:
    """Raise WrongRuntime when the threads of this process are not real ones, whether they were replaced before or after
    this package was imported."""
    for name, (runtime, replaced, works) in _REPLACES_THREADS.items():
        module = sys.modules.get(name)
        if module is not None and replaced(module):
            raise WrongRuntime(
                f"a {owner} needs real threads and queues, and {runtime} has replaced those of this process. Call "
                f"{works} instead: clients then work, and a call blocks all greenlets of its thread. Or use the client "
                f"in another process, without {runtime}"
            )


def check_interpreter(owner: str) -> None:
    """Raise WrongRuntime in a sub-interpreter that may not start threads. Ask before an event loop is made: uvloop's
    can never be closed there."""
    try:
        _thread.start_new_thread(lambda: None, ())
    except RuntimeError as error:
        if "interpreter" in str(error):
            raise WrongRuntime(
                f"a {owner} needs a thread, and this sub-interpreter of Python may start none. Use the client in the "
                "main interpreter, or in another process"
            ) from error


def refuse_copy(client: object) -> NoReturn:
    """What pickle and copy ask when a client is given to another process. Raises WrongRuntime."""
    raise WrongRuntime(
        f"a {type(client).__name__} cannot be given to another process or copied, because it has connections and "
        "threads here. Give its settings to the other process, and make a client there"
    )


def running_loop(owner: str) -> asyncio.AbstractEventLoop:
    """The event loop on which an asyncio client starts. Raises WrongRuntime under trio, and where no loop runs."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError as error:
        raise WrongRuntime(
            f"a {owner} of gantrymq.aio needs a running event loop of asyncio (or uvloop), and none runs here. Under "
            "trio, or in a thread without a loop, use the blocking client of the same name from gantrymq, in a thread "
            "of its own (trio.to_thread.run_sync)"
        ) from error


def check_loop(owner: str, own: asyncio.AbstractEventLoop | None) -> None:
    """Raise WrongRuntime unless ``own``, the loop on which the client was started, is the one that runs here."""
    if asyncio._get_running_loop() is own:
        return
    state = "which has ended" if own is not None and own.is_closed() else "and another one or none runs here"
    raise WrongRuntime(
        f"this {owner} belongs to the event loop on which it was started, {state}. Start and close it within one "
        "asyncio.run, or make one client for each loop. From other threads use asyncio.run_coroutine_threadsafe, or "
        "the blocking client from gantrymq"
    )
