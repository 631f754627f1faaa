"""TCP lines between programs that a test can cut, cut in one direction, slow down, and heal.

A program connects to a *door*, and the door connects to the program behind it. What a cut line does is what a network
does that loses packets:

| what happens                       | what the two programs see                                                   |
|------------------------------------|-----------------------------------------------------------------------------|
| bytes are sent over a cut line     | nothing: no error, no end; they wait, as TCP sends them again and again      |
| a program ends behind a cut line   | nothing: its last packets are lost, too                                      |
| a connection is opened             | nothing comes, in either direction: TCP needs both for a new connection      |
| the line is healed                 | what waited arrives; or the connection breaks, as when one side has given up |

A door that several programs use finds out which one connects: the kernel knows whose socket it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeAlias

from gantrymq.demo.ports import free_port
from gantrymq.runtime.network import Link, Receiver, TcpNetwork

Place: TypeAlias = str
"""Who sends or gets, for example ``etcd``, or the brokerId of a member."""
Way: TypeAlias = tuple[Place, Place]
"""From one place to another one."""

HOST: Final = "127.0.0.1"
BEHIND: Final = "127.0.0.2"
"""Where programs listen whose usual address is that of a door."""
CHUNK_BYTES: Final = 64 * 1024
ON_THE_WAY: Final = 64
"""Chunks of one direction of a connection."""
STARTED_S: Final = 30.0


def both(one: Place, other: Place) -> tuple[Way, Way]:
    return (one, other), (other, one)


class Lines:
    """All of them. They are carried by a thread of their own, so a test that is busy slows nothing down."""

    def __init__(self, rng: random.Random, owners: Callable[[], dict[int, Place]] = dict) -> None:
        """``owners``: which process is at which place, for doors that several use."""
        self._rng = rng
        self.owners = owners
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lines", daemon=True)
        self._cut: frozenset[Way] = frozenset()
        self._slow: dict[Way, tuple[float, float]] = {}
        self._changed = asyncio.Event()
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Lines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._here(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def door(self, to: Place, port: int, *, behind: str = HOST, at: int | None = None, of: Place = "") -> int:
        """Open a door to a program that listens on ``port`` of ``behind``. ``at``: the port of the door. ``of``: who
        uses it; empty: the owner of the process that connects. Returns the port."""
        place = free_port() if at is None else at
        self._here(self._open(to, port, behind, place, of))
        return place

    def cut(self, ways: Iterable[Way]) -> None:
        """From now on nothing arrives this way."""
        self._here(self._set(frozenset(ways), {}))

    def slow(self, ways: Iterable[Way], least_s: float, most_s: float) -> None:
        """From now on everything takes so long this way. Nothing overtakes."""
        self._here(self._set(frozenset(), dict.fromkeys(ways, (least_s, most_s))))

    def heal(self, *, broken: bool) -> None:
        """``broken``: connections over lines that were cut end now."""
        self._here(self._heal(broken))

    def _here(self, done: Awaitable[None]) -> None:
        async def awaited() -> None:
            await done

        ended: Future[None] = asyncio.run_coroutine_threadsafe(awaited(), self._loop)
        ended.result(STARTED_S)

    # ---- in the thread

    async def _open(self, to: Place, port: int, behind: str, at: int, of: Place) -> None:
        async def came(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = writer.get_extra_info("peername")
            source = of or owner_of(peer[1], at, self.owners())
            connection = _Connection(self, source, to)
            self._connections.add(connection)
            try:
                await connection.carry(reader, writer, behind, port)
            finally:
                self._connections.discard(connection)

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(came(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._servers.append(await asyncio.start_server(accepted, HOST, at, backlog=1024))

    async def _set(self, cut: frozenset[Way], slow: dict[Way, tuple[float, float]]) -> None:
        self._cut, self._slow = cut, slow
        self._changed.set()
        self._changed.clear()

    async def _heal(self, broken: bool) -> None:
        was_cut = self._cut
        if broken:
            for connection in self._connections:
                if was_cut.intersection(both(connection.source, connection.to)):
                    connection.break_off()
        await self._set(frozenset(), {})

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        while self._tasks:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until_open(self, *ways: Way) -> None:
        while self._cut.intersection(ways):
            await self._changed.wait()

    def delay_s(self, way: Way) -> float:
        return self._rng.uniform(*self._slow[way]) if way in self._slow else 0.0


class _Connection:
    """One, with both of its directions."""

    def __init__(self, lines: Lines, source: Place, to: Place) -> None:
        self._lines = lines
        self.source, self.to = source, to
        self._over = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    def break_off(self) -> None:
        """Whatever waits is lost."""
        for one in self._writers:
            one.transport.abort()
        self._over.set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
        """Until both sides have ended, or it breaks."""
        self._writers.append(writer)
        carried = asyncio.ensure_future(self._carried(reader, writer, host, port))
        over = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait((carried, over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (carried, over):
                task.cancel()
            await asyncio.gather(carried, over, return_exceptions=True)
            for one in self._writers:
                one.close()

    async def _carried(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int
    ) -> None:  # fmt: skip
        there, back = both(self.source, self.to)
        await self._lines.until_open(there, back)
        with contextlib.suppress(OSError):  # nobody listens there
            far_reader, far_writer = await asyncio.open_connection(host, port)
            self._writers.append(far_writer)
            async with asyncio.TaskGroup() as directions:
                directions.create_task(self._direction(reader, far_writer, there))
                directions.create_task(self._direction(far_reader, writer, back))

    async def _direction(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(ON_THE_WAY)

        async def read() -> None:
            due = 0.0
            while True:
                try:
                    chunk = await reader.read(CHUNK_BYTES)
                except OSError:
                    chunk = b""
                due = max(due, asyncio.get_running_loop().time() + self._lines.delay_s(way))
                await chunks.put((due, chunk))
                if not chunk:
                    return

        reading = asyncio.ensure_future(read())
        try:
            while True:
                due, chunk = await chunks.get()
                await asyncio.sleep(max(due - asyncio.get_running_loop().time(), 0))
                await self._lines.until_open(way)
                if not chunk:
                    self._over.set()  # none of these programs ends one direction only
                    return
                writer.write(chunk)
                await writer.drain()
        except OSError:
            self._over.set()
        finally:
            reading.cancel()


def owner_of(port: int, at: int, owners: dict[int, Place]) -> Place:
    """Which of these processes has the socket that is bound to ``port`` and connected to ``at``. Empty: none."""
    wanted = (f"0100007F:{port:04X}", f"0100007F:{at:04X}")
    inode = ""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if (words[1], words[2]) == wanted:
            inode = f"socket:[{words[9]}]"
    for pid, place in owners.items():
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{pid}/fd/{name}") == inode:
                        return place
    return ""


class Through(TcpNetwork):
    """The network of a client in this process that has doors of its own: it is at another place than the others."""

    def __init__(self, doors: dict[int, int]) -> None:
        """``doors``: port that a route names, to the one of its own door."""
        self._doors = doors

    async def connect(self, host: str, port: int, receiver: Receiver, timeout_s: float) -> Link:
        return await super().connect(host, self._doors.get(port, port), receiver, timeout_s)
