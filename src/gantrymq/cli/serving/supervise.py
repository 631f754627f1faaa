"""Runs several brokers on one machine, each in a process with a store directory of its own, and restarts them.

One broker uses one core; several brokers behind one name server are RocketMQ's own way to use more. A broker that dies
is reported and started again, after 1 s, 2 s, 4 s ... 30 s; the wait is short again once it has run for a minute. Its
store recovers at each start, and clients use the other brokers meanwhile. A broker that cannot be started at the very
first time ends everything: that is a mistake in the settings, not an accident.

The processes are told to stop by a signal, and by the end of their standard input: when this process is killed they do
not stay behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gantrymq.cli.serving.running import SUPERVISED
from gantrymq.errors import ConfigError, GantryError
from gantrymq.runtime.clock import Clock

PORT_STEP: Final = 10
"""Distance between the ports of two brokers: each also reserves port - 2 (fast port) and port + 1 (replication)."""
BROKERS_MAX: Final = 64
BACKOFF_FIRST_S: Final = 1.0
BACKOFF_MAX_S: Final = 30.0
CALM_AFTER_S: Final = 60.0
STOP_WAIT_S: Final = 12.0
"""For an orderly stop of a broker, before it is killed; its next start recovers."""
_READY: Final = re.compile(r"gantry broker is ready: broker \S+ (\S+),")


class BrokerFailed(GantryError):
    """A broker could not be started."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of one broker process."""

    name: str
    store: Path
    port: int
    """0: any free one."""
    http_port: int = 0
    """0: no HTTP endpoint."""
    grpc_port: int = 0
    """0: no clients of gRPC."""


def plans(
    count: int, store: Path, first_port: int, name: str | None, http_port: int = 0, grpc_port: int = 0
) -> list[Plan]:
    """The brokers ``<name>-0`` ... in ``<store>/broker-0`` ... Raises ConfigError when that cannot be."""
    if not 1 <= count <= BROKERS_MAX:
        raise ConfigError(f"--brokers is {count}; write a number from 1 to {BROKERS_MAX}")
    last = first_port + (count - 1) * PORT_STEP
    if first_port and last > 65_535:
        raise ConfigError(f"{count} brokers from port {first_port} on need ports up to {last}; begin lower")
    if (store / "commitlog").exists():
        raise ConfigError(
            f"{store} holds the messages of a single broker; to keep them, stop it and move all that is in there to "
            f"{store / 'broker-0'}, or give another --store"
        )
    known = name or "broker"
    return [
        Plan(
            f"{known}-{number}",
            store / f"broker-{number}",
            first_port + number * PORT_STEP if first_port else 0,
            http_port + number if http_port else 0,
            grpc_port + number if grpc_port else 0,
        )
        for number in range(count)
    ]


def left_out(count: int, store: Path) -> list[str]:
    """Stores of brokers that an earlier start had and this one does not have: their messages are not served."""
    numbers = [int(path.name[7:]) for path in store.glob("broker-*") if path.name[7:].isdecimal()]
    return [str(store / f"broker-{number}") for number in sorted(numbers) if number >= count]


def backoff_s(failures: int) -> float:
    """Seconds to wait before the next start, after this many short-lived starts in a row."""
    return min(BACKOFF_FIRST_S * float(1 << min(failures, 16)), BACKOFF_MAX_S)


class Child:
    """One broker process, started again when it dies."""

    def __init__(self, plan: Plan, command: Sequence[str], clock: Clock, say: Callable[[str], None]) -> None:
        """``say`` prints a message for a person."""
        self.plan = plan
        self.address = ""
        self._command = command
        self._clock = clock
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._last_words = ""

    async def start(self) -> None:
        """Returns when the broker serves. Raises BrokerFailed with what it said when it does not."""
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, start_new_session=True, env={**os.environ, SUPERVISED: "1"},
        )  # fmt: skip
        self._process = process
        ready = asyncio.get_running_loop().create_future()
        self._readers = [
            asyncio.create_task(self._read_out(process, ready)), asyncio.create_task(self._read_err(process))
        ]  # fmt: skip
        await asyncio.wait({ready, asyncio.ensure_future(process.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            await asyncio.gather(*self._readers)
            ready.cancel()
            raise BrokerFailed(f"{self.plan.name} did not start ({_status(process)}): {self._last_words}")
        self.address = ready.result()

    async def keep(self) -> None:
        """Start it again whenever it dies, until cancelled."""
        failures = 0
        while True:
            started = self._clock.monotonic()
            if self._process is not None:
                await self._process.wait()
                await asyncio.gather(*self._readers)
                if self._clock.monotonic() - started >= CALM_AFTER_S:
                    failures = 0
                self._say(f"{self.plan.name} ended ({_status(self._process)}); its messages are safe and wait for it")
            while True:
                wait = backoff_s(failures)
                failures += 1
                self._say(f"{self.plan.name} is started again in {wait:g} s")
                await self._clock.sleep(wait)
                try:
                    await self.start()
                except BrokerFailed as error:
                    self._say(str(error))
                    continue
                self._say(f"{self.plan.name} is ready again: {self.address}")
                break

    async def stop(self) -> None:
        """Stop the process in an orderly way, or kill it when that takes too long. May be called at any time."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), STOP_WAIT_S)
            except TimeoutError:
                self._say(
                    f"{self.plan.name} did not stop within {STOP_WAIT_S:g} s and is killed; its next start recovers"
                )
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        await asyncio.gather(*self._readers, return_exceptions=True)

    async def _read_out(self, process: asyncio.subprocess.Process, ready: asyncio.Future[str]) -> None:
        async for text in _lines(process.stdout):
            found = _READY.match(text)
            if found and not ready.done():
                ready.set_result(found.group(1))
            if not found or "waits for" in text or "REFUSED" in text:
                self._say(f"{self.plan.name}: {text}")

    async def _read_err(self, process: asyncio.subprocess.Process) -> None:
        async for text in _lines(process.stderr):
            self._last_words = text
            self._say(f"{self.plan.name}: {text}")


async def _lines(stream: asyncio.StreamReader | None) -> AsyncIterator[str]:
    while stream is not None:
        try:
            line = await stream.readline()
        except ValueError:  # a line longer than the buffer
            continue
        if not line:
            return
        yield line.decode("utf-8", "replace").rstrip("\n")


def _status(process: asyncio.subprocess.Process) -> str:
    code = process.returncode
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit status {code}"


@asynccontextmanager
async def running(children: Sequence[Child]) -> AsyncIterator[None]:
    """A context in which all brokers serve. They are restarted when they die, and stopped at the end."""
    tasks = [asyncio.create_task(child.start()) for child in children]
    try:
        await asyncio.gather(*tasks)
        tasks = [asyncio.create_task(child.keep()) for child in children]
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(child.stop() for child in children))


def command_of(plan: Plan, name_server: str, options: Sequence[str]) -> list[str]:
    """How a broker process is started."""
    given = ["--store", str(plan.store), "--listen-port", str(plan.port), "--broker-name", plan.name]
    given += ["--http-port", str(plan.http_port)] if plan.http_port else []
    given += ["--grpc-port", str(plan.grpc_port)] if plan.grpc_port else []
    return [
        sys.executable, "-m", "gantrymq.cli.main", "broker", *given, "--namesrv-addr", name_server, *options
    ]  # fmt: skip
