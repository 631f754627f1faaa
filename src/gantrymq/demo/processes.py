"""The processes of the demo. Each has a process group of its own and a log file, and a watchdog kills it in the end."""

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
    """The demo cannot continue. The message names the process or step and its log."""


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
        """End the watchdog, which first kills the processes that it still watches."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


LAST_WORDS_SECONDS = 5
"""How long to read the last output of a process that has ended. This time passes only if a child of it still has the
output open."""


class Child:
    """One process of the demo. The JSON lines that it writes to standard output become events."""

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
        """Read the output: JSON objects become events, other lines go to the log."""
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
        """None while the process runs; negative: killed by that signal. When this is not None, ``events`` returns its
        last events, too."""
        status = self._process.poll()
        if status is not None:
            self._reader.join(LAST_WORDS_SECONDS)
        return status

    def events(self) -> list[dict[str, Any]]:
        """The events since the last call."""
        said = []
        while not self._events.empty():
            said.append(self._events.get())
        return said

    def say(self, line: str) -> None:
        """Write a line to its standard input. Nothing happens when the process has ended."""
        if self._process.stdin is None:
            return
        try:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            return

    def kill(self) -> None:
        """Send SIGKILL to the process and everything that it started."""
        kill_group(self._process.pid)
        self._reap()

    def end(self, grace_seconds: float) -> None:
        """Ask the process to end (SIGTERM, end of its input), wait, then kill what is left of its group."""
        if self.exit_status is None:
            self._process.send_signal(signal.SIGTERM)
            self.wait(grace_seconds)
        self.kill()

    def wait(self, seconds: float) -> bool:
        """Wait for at most ``seconds``; whether the process has ended."""
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
        """An error that shows the last lines of the log."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        except OSError:
            lines = []
        return DemoFailed("\n".join([f"{self.name}: {what}; the end of its log {self.log}:", *lines]))

    def check_alive(self) -> None:
        """Raise DemoFailed when the process has ended unexpectedly."""
        if (status := self.exit_status) is not None:
            raise self.failure(f"ended with status {status}")


def is_listening(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
