"""The processes of the benchmark as their starter sees them: they are told and answer in lines of JSON."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from signal import Signals
from typing import Any, Final

from tests.support.tied import tied

from benchmarks.apache import NotPossible
from benchmarks.processes import await_route
from gantrymq.demo.ports import free_port

START_LIMIT_S: Final = 60.0
STOP_LIMIT_S: Final = 20.0


class Program:
    """A program that may be killed and started again."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.command = command
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def _start(self, **pipes: Any) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                tied(self.command), stderr=log, start_new_session=True, **{"stdout": log, **pipes}
            )
        return self.process

    def kill(self) -> None:
        """SIGKILL; harmless when it is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def signal(self, number: Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def _end(self, number: Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def said(self) -> str:
        """The end of its output, for a complaint."""
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""


class Server(Program):
    """``gantry server`` on one store, with SYNC_FLUSH."""

    def __init__(self, directory: Path) -> None:
        self.name_port, self.broker_port = free_port(), free_port()
        super().__init__(
            [
                *(sys.executable, "-m", "gantrymq.cli.main", "server", "--store", str(directory / "store")),
                *("--flush", "sync", "--namesrv-port", str(self.name_port), "--listen-port", str(self.broker_port)),
            ],
            directory / "broker.log",
        )  # fmt: skip

    def start(self) -> float:
        begun = time.monotonic()
        await_route(self.name_port, self._start(stdin=subprocess.DEVNULL), begun, self.log)
        return time.monotonic() - begun


class Role(Program):
    """A process of this benchmark: ``benchmarks.consistency.<module>``."""

    def __init__(self, module: str, *arguments: str, log: Path) -> None:
        super().__init__([sys.executable, "-m", f"benchmarks.consistency.{module}", *arguments], log)
        self.name = " ".join((module, *arguments[:1]))
        self._buffer = b""

    def start(self) -> None:
        """Start it, and wait until it says that it is ready."""
        self.begin_to_start()
        self.answer(START_LIMIT_S)

    def begin_to_start(self) -> None:
        """``start`` without the wait: its first answer says that it is ready."""
        self._buffer = b""
        self._start(stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **command: Any) -> None:
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self, limit_s: float) -> dict[str, Any]:
        """Its next line. Raises NotPossible when it ended or says nothing."""
        assert self.process is not None and self.process.stdout is not None
        pipe, deadline = self.process.stdout.fileno(), time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(pipe, 1 << 20) if ready else b""
            if not piece:
                what = "ended" if ready else f"said nothing for {limit_s:g} s"
                raise NotPossible(f"the process '{self.name}' {what}; its output:\n{self.said()}")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found


def say(**values: Any) -> None:
    """In a role: a line to who started it."""
    print(json.dumps(values), flush=True)


def commands() -> Any:
    """In a role: what it is told, to the end."""
    for line in sys.stdin:
        yield json.loads(line)
