"""The processes of the demo: each in a process group of its own, with a log file, watched, and killable."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gantrymq.demo.watchdog import kill_group
from gantrymq.errors import GantryError

LOG_TAIL_LINES = 15


class DemoFailed(GantryError):
    """The demo cannot go on. The message says which process or step it was and where its log lies."""


class Watchdog:
    """The other end of :mod:`gantrymq.demo.watchdog`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gantrymq.demo.watchdog"], stdin=subprocess.PIPE, start_new_session=True
        )

    def _say(self, line: str) -> None:
        if self._process.stdin is None:
            return
        try:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise DemoFailed("the watchdog process of the demo is gone; start the demo again") from None

    def watch(self, group: int) -> None:
        self._say(f"watch {group}")

    def forget(self, group: int) -> None:
        self._say(f"forget {group}")

    def close(self) -> None:
        """Let it go; it kills what is still watched first."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


LAST_WORDS_SECONDS = 5
"""For reading what a process said before it ended; longer only when a child of it still holds its output."""


class Child:
    """One process of the demo. What it prints on standard output as JSON lines become events."""

    def __init__(self, name: str, command: Sequence[str], log: Path, watchdog: Watchdog) -> None:
        self.name = name
        self.log = log
        self._watchdog = watchdog
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        log_fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_fd,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
            watchdog.watch(self._process.pid)
            self._reader = threading.Thread(target=self._read, args=(os.dup(log_fd),), daemon=True, name=f"read-{name}")
            self._reader.start()
        finally:
            os.close(log_fd)

    def _read(self, log_fd: int) -> None:
        """JSON objects become events, any other line goes to the log."""
        if self._process.stdout is None:
            return
        try:
            for line in self._process.stdout:
                try:
                    event = msgspec.json.decode(line, type=dict[str, Any])
                except msgspec.DecodeError:
                    os.write(log_fd, line)
                else:
                    self._events.put(event)
        finally:
            os.close(log_fd)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs; negative: killed by that signal. Once it ended, ``events`` has its last words, too."""
        status = self._process.poll()
        if status is not None:
            self._reader.join(LAST_WORDS_SECONDS)
        return status

    def events(self) -> list[dict[str, Any]]:
        """What it said since the last call."""
        said = []
        while not self._events.empty():
            said.append(self._events.get())
        return said

    def say(self, line: str) -> None:
        """Write a line to its standard input; harmless when it is gone."""
        if self._process.stdin is None:
            return
        try:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            return

    def kill(self) -> None:
        """SIGKILL, at once and without a farewell, for it and everything it started."""
        kill_group(self._process.pid)
        self._reap()

    def end(self, grace_seconds: float) -> None:
        """Ask it to end (SIGTERM, end of its input), wait, then kill what is left of its group."""
        if self.exit_status is None:
            self._process.send_signal(signal.SIGTERM)
            self.wait(grace_seconds)
        self.kill()

    def wait(self, seconds: float) -> bool:
        """Whether it ended by itself within ``seconds``."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _reap(self) -> None:
        self._process.wait()
        self._reader.join(5)
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._watchdog.forget(self._process.pid)

    def failure(self, what: str) -> DemoFailed:
        """An error that shows the last lines of its log."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        except OSError:
            lines = []
        return DemoFailed("\n".join([f"{self.name}: {what}; the end of its log {self.log}:", *lines]))

    def check_alive(self) -> None:
        """Raise DemoFailed when it ended although nobody asked it to."""
        if (status := self.exit_status) is not None:
            raise self.failure(f"ended with status {status}")


def is_listening(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
