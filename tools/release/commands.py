"""Programs that a trial starts. Each is a group of its own, and nothing of it is left when the trial is interrupted."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from .steps import Failed

LIMIT_S: Final = 1200
"""Seconds for one command; an installation fetches packages."""
READY_S: Final = 120
"""Seconds for the start of a server, and for its end."""
LAST_LINES: Final = 25
_HIDDEN: Final = re.compile(r"PYTHON.*|VIRTUAL_ENV|NAMESRV_ADDR|GANTRY_.*|JAVA_.*|SPARK_.*")
"""Variables of whoever calls this: a trial must not find the checkout, its packages or another server through them."""
_ADDRESS: Final = re.compile(r"gantry server is ready: name server (\S+),")


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not _HIDDEN.fullmatch(name)}


def run(command: Sequence[str | Path], cwd: Path) -> str:
    """What a command prints on both streams. Raises Failed with its last lines."""
    words = [str(word) for word in command]
    with _started(words, cwd, subprocess.PIPE) as process:
        try:
            printed, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"{' '.join(words)}\nhas not ended after {LIMIT_S} s") from None
    if process.returncode != 0:
        last = "\n".join(printed.splitlines()[-LAST_LINES:])
        raise Failed(f"exit status {process.returncode} of: {' '.join(words)}\n{last}")
    return printed


@contextlib.contextmanager
def _started(words: list[str], cwd: Path, output: int) -> Iterator[subprocess.Popen[str]]:
    """A program in a process group, which is killed when the block ends before it."""
    try:
        process = subprocess.Popen(
            words, cwd=cwd, env=environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise Failed(f"{words[0]} cannot be started: {error}") from None
    with process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def server(gantry: Path, home: Path) -> Iterator[str]:
    """``gantry server`` on free ports; gives the address of its name server, and stops it by SIGTERM.

    Raises Failed when it does not start, or does not end with exit status 0.
    """
    words = [str(gantry), "server", "--store", str(home / "store"), "--name-server-port", "0", "--listen-port", "0"]
    with _started(words, home, subprocess.PIPE) as process:
        yield _address(process)
        process.terminate()
        try:
            printed, _ = process.communicate(timeout=READY_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"gantry server has not ended {READY_S} s after SIGTERM") from None
        if process.returncode != 0:
            raise Failed(f"gantry server ended with status {process.returncode} after SIGTERM:\n{printed}")


def _address(process: subprocess.Popen[str]) -> str:
    """Where the server listens, by the line that it prints when it is ready."""
    previous = signal.signal(signal.SIGALRM, _too_late)
    signal.alarm(READY_S)
    lines = []
    try:
        for line in process.stdout or ():
            lines.append(line)
            if found := _ADDRESS.match(line):
                return found[1]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    raise Failed("gantry server ended before it was ready:\n" + "".join(lines[-LAST_LINES:]))


def _too_late(number: int, frame: object) -> None:
    raise Failed(f"gantry server was not ready after {READY_S} s")
