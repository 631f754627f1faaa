"""Records that are not fresh are checked in one loop; damage must look the same as one record at a time."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import pytest

from gantrymq.protocol.stored_message import scan
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.message_store import MessageStore
from gantrymq.store.reading import QueueReader
from gantrymq.store.values import GetResult
from tests.support.places import durable, open_store, record, run, small

SEEDS: Final = 60
COUNT: Final = 60


async def filled(disk: SimDisk, rng: random.Random) -> None:
    """A closed store: two queues, whose records are neighbours in the log, near each other, or far apart."""
    store = open_store(small("/store"), disk)
    placed = []
    for _ in range(COUNT):
        queue = 0 if rng.random() < 0.8 else 1
        placed += store.append([record("Orders", queue, rng.randbytes(rng.choice((0, 9, 700))))])
    assert await durable(store, placed) is None
    await store.close()


def damage(disk: SimDisk, rng: random.Random) -> None:
    """Turn some bytes over, in the log or in the entries of a queue."""
    for _ in range(rng.choice((0, 1, 3))):
        directory = rng.choice(("/store/commitlog", "/store/consumequeue/Orders/0", "/store/consumequeue/Orders/1"))
        path = f"{directory}/{rng.choice(sorted(disk.list(directory)))}"
        at = rng.randrange(len(disk.bytes_of(path)[0]) // rng.choice((1, 4)))
        flip = rng.randrange(1, 256)
        for content in disk.bytes_of(path):
            content[at] ^= flip


def everything(store: MessageStore, max_count: int, max_bytes: int) -> list[tuple[int, GetResult]]:
    answers = []
    for queue in (0, 1):
        offset, end = store.queue_range("Orders", queue)
        while offset < end:
            answer = store.get("Orders", queue, offset, max_count, max_bytes)
            answers.append((offset, answer))
            assert answer.next_offset > offset
            offset = answer.next_offset
    return answers


@pytest.mark.pure("the quick way is taken out of the store")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_checking_in_one_loop_is_the_same_as_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        rng = random.Random(seed)
        disk = SimDisk()
        await filled(disk, rng)
        store = open_store(small("/store"), disk)
        damage(disk, rng)
        max_count, max_bytes = rng.choice((1, 7, 32)), rng.choice((1, 900, 1 << 20))
        quick = everything(store, max_count, max_bytes)
        with monkeypatch.context() as patch:
            patch.setattr(QueueReader, "_checked", lambda *_: None)
            assert everything(store, max_count, max_bytes) == quick
        for _, answer in quick:
            assert len(list(scan(answer.data))) == answer.count

    run(scenario())


def test_old_records_are_handed_out_as_they_were_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(small(tmp_path))
        placed = [store.append([record(queue_id=n % 2, body=b"%d" % n)])[0] for n in range(200)]
        assert await durable(store, placed) is None
        fresh = everything(store, 32, 1 << 20)
        await store.close()
        again = open_store(small(tmp_path))
        assert everything(again, 32, 1 << 20) == fresh
        await again.close()

    run(scenario())


def test_what_this_process_wrote_is_checked_once_it_may_have_left_the_memory() -> None:
    async def scenario() -> None:
        disk = SimDisk()
        disk.cache_bytes = 2000
        store = open_store(small("/store"), disk)
        placed = [store.append([record(queue_id=0, body=b"%d" % n * 200)])[0] for n in range(20)]
        assert await durable(store, placed) is None
        (name,) = disk.list("/store/commitlog")
        for content in disk.bytes_of(f"/store/commitlog/{name}"):
            content[placed[0].end - 150] ^= 1  # in the body of the first record
            content[placed[-1].end - 150] ^= 1  # and of the last one, which comes from memory
        read = [answer for _, answer in everything(store, 1, 1 << 20)]
        assert [answer.count for answer in read] == [0] + [1] * 19
        await store.close()

    run(scenario())
