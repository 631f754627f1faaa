"""A child process whose output is a log that can be waited for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from tests.support.tied import tied

T = TypeVar("T")

DEADLINE_SECONDS = 120.0
"""For one thing to happen. Generous: several JVMs may share two cores."""
POLL_SECONDS = 0.05


class Process:
    """A running program; output and errors go to ``<name>.out`` and ``<name>.err`` in its directory."""

    def __init__(
        self, name: str, command: list[str], directory: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.out = directory / f"{name}.out"
        self.err = directory / f"{name}.err"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self._popen = subprocess.Popen(
                tied(command), cwd=directory, stdin=subprocess.PIPE, stdout=out, stderr=err,
                env={**os.environ, **(environment or {})}, start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def text(self) -> str:
        """All it wrote to its output until now."""
        return self.out.read_text(errors="replace")

    def lines(self) -> list[str]:
        return self.text().splitlines()

    def steps(self, step: str | None = None) -> list[dict[str, Any]]:
        """The JSON objects a driver wrote, whole lines only; with ``step`` only those of that name."""
        found = [json.loads(line) for line in self.text().split("\n")[:-1] if line.startswith('{"')]
        return [entry for entry in found if step is None or entry.get("step") == step]

    def await_line(self, pattern: str, seconds: float = DEADLINE_SECONDS) -> re.Match[str]:
        """Wait for a line; fails with its last words when the process ends or the time is over."""
        wanted = re.compile(pattern, re.MULTILINE)
        return self.await_that(lambda: wanted.search(self.text()), f"a line like {pattern!r}", seconds)

    def await_step(self, step: str, seconds: float = DEADLINE_SECONDS, **fields: object) -> dict[str, Any]:
        """Wait for a driver's step with these fields."""

        def found() -> dict[str, Any] | None:
            fitting = (entry for entry in self.steps(step) if fields.items() <= entry.items())
            return next(fitting, None)

        return self.await_that(found, f"step {step!r} {fields or ''}", seconds)

    def await_that(self, look: Callable[[], T | None], what: str, seconds: float = DEADLINE_SECONDS) -> T:
        """Look again and again."""
        end = time.monotonic() + seconds
        while True:
            ended = not self.running
            found = look()
            if found:
                return found
            assert not ended, f"{self.name} ended with {self._popen.returncode} before {what}{self.last_words()}"
            assert time.monotonic() < end, f"{self.name}: no {what} within {seconds:g} s{self.last_words()}"
            time.sleep(POLL_SECONDS)

    def write_line(self, text: str = "") -> None:
        """Say something to its standard input."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(text.encode() + b"\n")
        self._popen.stdin.flush()

    def join(self, seconds: float = DEADLINE_SECONDS) -> int:
        """Wait for its end; the exit status."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end within {seconds:g} s{self.last_words()}") from None

    def done(self, seconds: float = DEADLINE_SECONDS) -> None:
        """Wait for its end, which has to be a good one."""
        status = self.join(seconds)
        assert status == 0, f"{self.name} ended with {status}{self.last_words()}"

    def stop(self, seconds: float = 60.0) -> None:
        """An orderly end (SIGTERM), or else SIGKILL. Harmless when it is gone."""
        self._popen.terminate()
        try:
            self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close()

    def kill(self) -> None:
        """SIGKILL. Harmless when it is gone."""
        self._popen.kill()
        self._popen.wait()
        self._close()

    def last_words(self) -> str:
        """The end of its output and errors, for a failure."""
        return "".join(
            f"\n--- {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in (self.out, self.err)
        )

    def _close(self) -> None:
        if self._popen.stdin is not None:
            self._popen.stdin.close()


def poll(look: Callable[[], T | None], what: str, seconds: float = DEADLINE_SECONDS) -> T:
    """Look again and again until something is found."""
    end = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < end, f"no {what} within {seconds:g} s"
        time.sleep(POLL_SECONDS)
