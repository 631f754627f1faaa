"""Run a program until a signal comes, and then stop it in an orderly way."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from gantrymq.errors import GantryError
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.guesses.open_files import open_files_limit
from gantrymq.runtime.os_files import DESCRIPTOR_ERRNOS, refusal
from gantrymq.runtime.service_notices import ServiceNotices

STOP_SECONDS: Final = 15.0
"""How long an orderly stop may take; what was acknowledged is safe in any case."""
STOPS: Final = (signal.SIGINT, signal.SIGTERM)

GC_THRESHOLDS: Final = (20_000, 20, 50)
"""A send makes a few short-lived objects, which need no garbage collection; Python's default collects after 700."""

FEW_FILES: Final = 1_024
"""With fewer, some hundred clients are too many."""

SUPERVISED: Final = "GANTRY_SUPERVISED"
"""Set for processes that another one supervises: stop when standard input ends."""

Started = AbstractAsyncContextManager[str]
"""A running program; the text says where it is reached."""


def run(name: str, program: Callable[[], Started], log_level: str) -> None:
    """Run until a signal comes. Errors that a person can act on become one sentence and exit status 1."""
    _set_up_logging(log_level)
    if (most := open_files_limit()) < FEW_FILES:
        say(
            f"warning: this process may have {most} files and connections open, and needs one for each client and "
            "more for its files; raise the limit (ulimit -n, LimitNOFILE of a service)"
        )
    work = _until_stopped(name, program())
    try:
        _run_loop(work)
    except GantryError as error:
        say(f"gantry {name}: {error}")
        raise SystemExit(1) from None
    except TimeoutError:
        say(f"gantry {name}: the stop took longer than {STOP_SECONDS:g} s and was cut short; the next start recovers")
        raise SystemExit(1) from None
    except OSError as error:
        work.close()  # it may not have begun
        warnings.simplefilter("ignore", RuntimeWarning)  # nor what the loop made of it
        few = error.errno in DESCRIPTOR_ERRNOS
        say(f"gantry {name}: {refusal(error, 'to start with', error.filename or 'an event loop') if few else error}")
        raise SystemExit(1) from None


async def _until_stopped(name: str, program: Started) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in STOPS:
        loop.add_signal_handler(number, stop.set)
    try:
        await _started_until(stop, name, program)
    finally:
        _stops_at_once(loop)  # a loop of uvloop keeps its handlers when it is closed


def _stops_at_once(loop: asyncio.AbstractEventLoop) -> None:
    """The next signal ends the process."""
    for number in STOPS:
        loop.remove_signal_handler(number)


async def _started_until(stop: asyncio.Event, name: str, program: Started) -> None:
    loop = asyncio.get_running_loop()
    notices = ServiceNotices.taken_from(os.environ)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        # Not by the loop: at its end it would restore the default action of the signal, which kills the process.
        signal.signal(signal.SIGHUP, lambda *_: loop.call_soon_threadsafe(stop.set))
    if os.environ.get(SUPERVISED):
        loop.add_reader(sys.stdin.fileno(), _until_input_ends, loop, stop)
    where = await _unless_stopped(program, stop)
    if where is None:
        return
    try:
        # These objects live as long as the process; the collector need not look at them again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        print(f"gantry {name} is ready: {where}. Stop with Ctrl-C.", flush=True)
        notices.ready(where, SystemClock())
        await stop.wait()
    finally:
        notices.stopping()
        _stops_at_once(loop)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # but not this: kernel and shell send one each
        async with asyncio.timeout(STOP_SECONDS):
            await program.__aexit__(None, None, None)


async def _unless_stopped(program: Started, stop: asyncio.Event) -> str | None:
    """Start; None when it was stopped before it had started. Starting may take long: recovery, other processes."""
    starting = asyncio.ensure_future(program.__aenter__())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        return None
    return starting.result()


def _until_input_ends(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """The process that started this one has ended."""
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()


def _run_loop(work: Any) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


def _set_up_logging(level: str) -> None:
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        say(f"--log-level is {level!r}; write debug, info, warning or error")
        raise SystemExit(2)
    logging.basicConfig(level=number, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)


def say(text: str) -> None:
    """Print a line on standard error, if it still exists: a terminal may have been closed."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)
