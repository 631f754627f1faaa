"""A ``gantry`` command as a process that is killed, and started again with the same log."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from gantrymq.cli.serving.running import SUPERVISED

START_SECONDS = 60.0
"""Until it is ready; generous, since several such processes may share two cores."""
STOP_SECONDS = 30.0
LAST_BYTES = 4_000
"""Of the log, in the error of a start."""
ACCOUNT = ("GANTRY_ACCESS_KEY", "GANTRY_SECRET_KEY")
"""Variables with which a command signs. A server has no use for the account of whoever runs the tests."""


class GantryProcess:
    """Output and errors of all its lives go to ``log``."""

    def __init__(self, log: Path, module: str = "gantrymq.cli.main") -> None:
        """``module``: a test's own one changes something before it calls that."""
        self.log = log
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """None: it was not started, or has been stopped or killed."""
        return self._process

    def start(self, *words: str) -> float:
        """Start ``gantry WORDS`` and return when it is ready: the seconds that took. Raises RuntimeError with the end
        of its log."""
        before = self.log.stat().st_size if self.log.exists() else 0
        begun = time.monotonic()
        with self.log.open("ab") as log:
            # It ends with its standard input, so with this process. A function that runs in the child before it would
            # need a fork, at which the threads of grpcio's clients break.
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, *words], stdin=subprocess.PIPE, stdout=log, stderr=log,
                start_new_session=True, env=environment(),
            )  # fmt: skip
        ready = f"gantry {words[0]} is ready: ".encode()
        while ready not in self._said(before):
            status = self._process.poll()
            if status is not None or time.monotonic() - begun > START_SECONDS:
                self.kill()
                raise RuntimeError(not_started(words, status, self._said(before)))
            time.sleep(0.02)
        return time.monotonic() - begun

    def _said(self, since: int) -> bytes:
        return self.log.read_bytes()[since:]

    def kill(self) -> None:
        """SIGKILL. Harmless when it does not run."""
        if self._process is not None:
            self._process.kill()
            self._ended()

    def stop(self) -> None:
        """SIGTERM, as a service manager does it. Harmless when it does not run."""
        if self._process is not None:
            self._process.terminate()
            self._ended()

    def _ended(self) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.wait(timeout=STOP_SECONDS)
        self._process.stdin.close()
        self._process = None


def environment() -> dict[str, str]:
    """Of a server."""
    return {**{name: value for name, value in os.environ.items() if name not in ACCOUNT}, SUPERVISED: "1"}


def not_started(words: tuple[str, ...], status: int | None, said: bytes) -> str:
    """``status``: with which it ended; None: it runs, and is not ready."""
    how = f"was not ready within {START_SECONDS:.0f} s" if status is None else f"ended with status {status}"
    last = said[-LAST_BYTES:].decode(errors="replace").strip() or "(nothing)"
    return f"gantry {words[0]} {how} instead of being ready. The end of what it wrote:\n{last}"
