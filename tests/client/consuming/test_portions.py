"""Bodies that grow when they are decompressed: how much at once, and what becomes of one that is too large."""

from __future__ import annotations

import asyncio
import zlib
from functools import cache

import pytest

from gantrymq.client.consuming.portions import PORTION_BYTES, Portion, Portions
from gantrymq.client.large_bodies import ON_LOOP_BYTES
from gantrymq.message import flags
from gantrymq.protocol import compression
from tests.client.consuming.test_pulling import QUEUE, pulled

MIB = 1024 * 1024


@cache
def zipped(size: int) -> tuple[bytes, int]:
    return zlib.compress(bytes(size), 9), flags.COMPRESSED


async def read(portions: Portions) -> list[Portion]:
    found = []
    while not portions.done:
        found.append(await portions.next())
    return found


def test_small_bodies_are_one_portion_on_the_loop() -> None:
    portions = Portions(pulled((b"plain", 0), zipped(10), zipped(20)), QUEUE, "*", MIB)
    portion = portions.read(ON_LOOP_BYTES, in_thread=False)
    assert portions.done and portion.below == 3 and portion.too_large is None
    assert [len(view.body) for view in portion.views] == [5, 10, 20]


def test_large_ones_come_in_portions_of_a_bounded_size() -> None:
    raw = pulled(zipped(100), *[zipped(5 * MIB) for _ in range(4)], (bytes(3 * MIB), 0), zipped(7))
    found = asyncio.run(read(Portions(raw, QUEUE, "*", 16 * MIB)))
    assert [len(view.body) for one in found for view in one.views] == [100, *[5 * MIB] * 4, 3 * MIB, 7]
    sizes = [sum(len(view.body) for view in one.views if view.compressed_when_stored) for one in found]
    assert sizes[0] == 100, "the loop goes on with what is small"
    assert max(sizes) <= PORTION_BYTES + 5 * MIB
    assert [one.below for one in found] == sorted(one.below for one in found) and found[-1].below == raw.next_offset


def test_the_loop_never_decompresses_more_than_its_share() -> None:
    portions = Portions(pulled(*[zipped(MIB // 3) for _ in range(9)]), QUEUE, "*", 16 * MIB)
    portion = portions.read(ON_LOOP_BYTES, in_thread=False)
    assert sum(len(view.body) for view in portion.views) <= ON_LOOP_BYTES and portion.below == 3


@pytest.mark.parametrize("kind", ["ZLIB", "LZ4", "ZSTD"])
def test_one_that_is_too_large_stands_alone_as_it_is_stored(kind: str) -> None:
    if kind != "ZLIB":
        pytest.importorskip({"LZ4": "lz4", "ZSTD": "zstandard"}[kind])
    flag = compression.flags_of(kind)
    small, large = (compression.compress(bytes(size), sys_flag=flag) for size in (MIB, MIB + 1))
    found = asyncio.run(read(Portions(pulled((small, flag), (large, flag), (b"behind", 0)), QUEUE, "*", MIB)))
    assert [[view.queue_offset for view in one.views] for one in found] == [[0], [], [2]]
    assert [one.below for one in found] == [1, 2, 3]
    aside = found[1].too_large
    assert aside is not None and aside.body == large and aside.body_cut and aside.queue_offset == 1


def test_one_that_nobody_wants_is_not_set_aside() -> None:
    found = asyncio.run(read(Portions(pulled(zipped(2 * MIB), (b"x", 0)), QUEUE, "paid", MIB)))
    assert [one.too_large for one in found] == [None] * len(found) and not any(one.views for one in found)
