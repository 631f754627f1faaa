"""Lines that a test cuts do what a network does that loses packets; see ``lines.py``."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import pytest

from tests.kill.lines import HOST, Lines, both

LIMIT_S: Final = 30.0
HERE, THERE = "here", "there"


class Ends(NamedTuple):
    """Both sides of a connection over a line."""

    lines: Lines
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    far: asyncio.StreamReader
    far_writer: asyncio.StreamWriter


@asynccontextmanager
async def connected(of: str = HERE) -> AsyncIterator[Ends]:
    came: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    server = await asyncio.start_server(lambda *both_ways: came.put_nowait(both_ways), HOST, 0)
    with Lines(random.Random(1), lambda: {os.getpid(): HERE}) as lines:
        door = await asyncio.to_thread(lines.door, THERE, server.sockets[0].getsockname()[1], of=of)
        reader, writer = await asyncio.open_connection(HOST, door)
        far, far_writer = await came.get()
        yield Ends(lines, reader, writer, far, far_writer)
        for one in (writer, far_writer):
            one.close()
    server.close()


def in_a_loop(test: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), LIMIT_S))

    run.__name__ = test.__name__
    return run


async def nothing_comes(reader: asyncio.StreamReader) -> bool:
    """Neither bytes nor an end. What comes over an open line in one turn is here long before."""
    try:
        async with asyncio.timeout(0.2):
            await reader.read(1)
    except TimeoutError:
        return True
    return False


@in_a_loop
async def test_an_open_line_carries_both_directions_and_the_end() -> None:
    async with connected() as ends:
        ends.writer.write(b"there")
        assert await ends.far.readexactly(5) == b"there"
        ends.far_writer.write(b"back")
        assert await ends.reader.readexactly(4) == b"back"
        ends.far_writer.close()
        assert await ends.reader.read() == b""


@in_a_loop
async def test_over_a_cut_line_nothing_comes_not_even_an_end_and_what_waited_comes_later() -> None:
    async with connected() as ends:
        await asyncio.to_thread(ends.lines.cut, both(HERE, THERE))
        ends.writer.write(b"lost?")
        assert await nothing_comes(ends.far)
        ends.far_writer.write(b"last")
        ends.far_writer.close()
        assert await nothing_comes(ends.reader)
        await asyncio.to_thread(ends.lines.heal, broken=False)
        assert await ends.reader.read() == b"last"


@in_a_loop
async def test_one_direction_is_cut_and_the_other_one_is_not() -> None:
    async with connected() as ends:
        await asyncio.to_thread(ends.lines.cut, [(HERE, THERE)])
        ends.far_writer.write(b"back")
        assert await ends.reader.readexactly(4) == b"back"
        ends.writer.write(b"there")
        assert await nothing_comes(ends.far)
        await asyncio.to_thread(ends.lines.heal, broken=False)
        assert await ends.far.readexactly(5) == b"there"


@in_a_loop
async def test_a_connection_breaks_when_one_side_has_given_up() -> None:
    async with connected() as ends:
        await asyncio.to_thread(ends.lines.cut, both(HERE, THERE))
        ends.writer.write(b"lost")
        assert await nothing_comes(ends.far)
        await asyncio.to_thread(ends.lines.heal, broken=True)
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await ends.far.readexactly(4)


@in_a_loop
async def test_a_slow_line_loses_nothing_and_keeps_the_order() -> None:
    async with connected() as ends:
        await asyncio.to_thread(ends.lines.slow, both(HERE, THERE), 0.0, 0.02)
        sent = b"".join(b"%4d" % number for number in range(50))
        for number in range(50):
            ends.writer.write(sent[4 * number : 4 * number + 4])
            await ends.writer.drain()
            await asyncio.sleep(0.002)
        assert await ends.far.readexactly(len(sent)) == sent


@in_a_loop
async def test_a_door_for_several_knows_who_comes() -> None:
    async with connected(of="") as ends:
        await asyncio.to_thread(ends.lines.cut, [(HERE, THERE)])
        ends.writer.write(b"lost")
        assert await nothing_comes(ends.far)
