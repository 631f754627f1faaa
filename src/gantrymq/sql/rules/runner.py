"""Who carries out steps: a thread that waits, or an event loop. The steps are written once, for both.

Steps are ``async def``, and what they wait for is behind a port. The port of an event loop awaits it. That of a thread
does it at once, so there an ``await`` never suspends anything: the steps end in the call that began them, on the stack
of their caller. Exceptions, Ctrl-C and greenlets pass through them as through any function.

Where the order of steps is a rule (``steps``, ``claim``, ``cleaning``), it is a generator of values, and ``perform``
hands each value to whoever carries it out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

from gantrymq.errors import InvariantViolated

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")
Ts = TypeVarTuple("Ts")


def run_blocking(steps: Callable[[*Ts], Coroutine[Any, Any, T]], *arguments: *Ts) -> T:
    """Run steps whose port belongs to threads. Raises InvariantViolated for steps that wait for an event loop."""
    try:
        steps(*arguments).send(None)  # in one line: no interrupt comes between the two
    except StopIteration as end:
        done: T = end.value
        return done
    raise InvariantViolated("these steps wait for an event loop, and a thread runs them")


def blocking(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """A function of a thread as a port of ``run_blocking``."""

    async def done(*arguments: P.args, **options: P.kwargs) -> T:
        return function(*arguments, **options)

    return done


async def perform(work: Generator[S, Any, T], carry_out: Callable[[S], Awaitable[Any]]) -> T:
    """Run a generator of steps to its end. The errors of ``carry_out`` are raised into it."""
    try:
        step = next(work)
        while True:
            try:
                got = await carry_out(step)
            except Exception as error:  # noqa: BLE001 - it belongs to the steps, which end with it
                step = work.throw(error)
            else:
                step = work.send(got)
    except StopIteration as end:
        done: T = end.value
        return done


def performed(work: Generator[S, Any, T], carry_out: Callable[[S], Any]) -> T:
    """The same in a thread."""
    return run_blocking(perform, work, blocking(carry_out))
