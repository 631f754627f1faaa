"""Runs a Spark job for a command: what Spark prints, how Ctrl-C ends it, and what an error looks like.

Spark's JVM and its Python workers inherit the standard error of this process. Here it is a pipe, whose lines are passed
on as long as they help a person.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import threading
from collections.abc import Callable, Iterator
from typing import Final, NoReturn, TypeVar

from rich.console import Console

from gantrymq.errors import GantryError

T = TypeVar("T")

INTERRUPTED: Final = 130
"""As shells have it."""
INTERRUPT_DELAY_SECONDS: Final = 0.2
"""So long an interrupt can go unnoticed that came between two steps of the main thread."""
FRAMES: Final = re.compile(rb"\s+at [\w.$/<>]+\(|\s+\.\.\. \d+ (more|elided)")
"""The lines of a Java stack trace that name places in Spark's source."""
PYTHON_ERROR: Final = re.compile(r"(?:gantrymq|pyspark)[\w.]*\.(?:\w+): (.+)")
"""In Spark's text of a failure: the last line of the error of a Python process."""


def run_job(work: Callable[[], T], fail: Callable[[str], NoReturn]) -> T:
    """The result of ``work``, which starts Spark. An error becomes one sentence for ``fail``.

    Ctrl-C ends this process at once, also while Spark starts. That is safe, because a job may be killed at any moment,
    and an orderly stop would make Spark and its gateway print the tracebacks of everything that was interrupted.
    """
    done = threading.Event()
    outcome: list[T | BaseException] = []

    def target() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - passed on to the thread that waits
            outcome.append(error)
        finally:
            done.set()

    with standard_error_of_spark():
        try:
            # Not in the main thread: there PySpark would install a handler for Ctrl-C of its own.
            threading.Thread(target=target, name="spark-job", daemon=True).start()
            # A signal that comes just before the wait begins does not end the wait: the next round sees it.
            while not done.wait(INTERRUPT_DELAY_SECONDS):
                pass
        except KeyboardInterrupt:
            Console().print("stopped; run the same command again to continue")
            os._exit(INTERRUPTED)
    result = outcome[0]
    if not isinstance(result, BaseException):
        return result
    if isinstance(result, GantryError) or type(result).__module__.startswith(("pyspark.", "py4j.")):
        fail(sentence_of(result))
    raise result


def sentence_of(error: BaseException) -> str:
    """What a person can act on: the sentence of this package's error, which Spark wraps in texts of its own."""
    text = str(error)
    if isinstance(error, GantryError):
        return text
    if type(error).__name__ == "Py4JNetworkError":
        return (
            "Spark's Java process has ended. If it said OutOfMemoryError, give it more memory (run.driver_memory), or "
            "smaller batches (run.max_rows); then run the command again, which continues"
        )
    said = PYTHON_ERROR.findall(text)
    if said:
        return str(said[-1]).removesuffix(" SQLSTATE: 38000").strip()
    return next((line for line in text.splitlines() if line.strip()), type(error).__name__)


@contextlib.contextmanager
def standard_error_of_spark() -> Iterator[None]:
    """Pass on what Spark's processes print, without the frames of Java's stack traces, and nothing after this block."""
    real = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)
    passing_on = threading.Thread(target=_pass_on, args=(reading, real), name="spark-stderr", daemon=True)
    passing_on.start()
    try:
        yield
    finally:
        os.dup2(real, 2)
        while select.select([reading], [], [], 0.05)[0] and passing_on.is_alive():
            pass


def _pass_on(reading: int, real: int) -> None:
    rest = b""
    while chunk := os.read(reading, 65536):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if not FRAMES.match(line):
                os.write(real, line + b"\n")
        if rest and not rest[:1].isspace():
            os.write(real, rest)  # a prompt, or the line of a progress display
            rest = b""
