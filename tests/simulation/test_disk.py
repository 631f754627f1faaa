"""A sync of a simulated disk catches what was there when it began."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from gantrymq.simulation.world.disk import SimDisk

SEEDS = 40


async def _synced(disk: SimDisk, *, directory: bool = False) -> None:
    """Write and make names, once before and once during a sync that takes a while."""
    file = disk.open("/f", create=True)
    disk.sync_dir("/")
    file.write(b"early", 0)
    disk.sync_s = 0.01
    ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    disk.sync_later([disk.open_dir("/") if directory else file], ended.set_result)
    file.write(b"late!", 5)
    disk.open("/late", create=True)
    assert await ended is None


def test_what_was_written_before_it_began_is_safe_and_what_was_written_later_may_be_lost() -> None:
    left = Counter[bytes]()
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        asyncio.run(_synced(disk))
        left[disk.power_cut().open("/f").read(10, 0)] += 1
    assert all(data.startswith(b"early") for data in left)
    assert left[b"early"] and left[b"earlylate!"]


def test_the_same_counts_for_names() -> None:
    left = Counter[bool]()
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        asyncio.run(_synced(disk, directory=True))
        after = disk.power_cut()
        assert after.exists("/f")
        left[after.exists("/late")] += 1
    assert left[True] and left[False]


@pytest.mark.parametrize("again", [False, True])
def test_the_next_process_may_sync_what_the_one_before_it_wrote(again: bool) -> None:
    """``again``: the sync of the one that was killed was under way."""
    for seed in range(SEEDS):
        disk = SimDisk(seed)
        file = disk.open("/f", create=True)
        disk.sync_dir("/")
        file.write(b"early", 0)
        if again:
            disk.hold_syncs = True
            asyncio.run(_begin(disk))
        after = disk.process_dies()
        after.open("/f").sync()
        assert after.power_cut().open("/f").read(5, 0) == b"early"


async def _begin(disk: SimDisk) -> None:
    disk.sync_later([disk.open("/f")], lambda error: None)
