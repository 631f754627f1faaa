"""A log with damage anywhere: a broker finds the same in what was restored as in the store itself."""

from __future__ import annotations

import random
import secrets
import shutil
from pathlib import Path

import pytest

from tests.backup.scene import Scene
from tests.support.places import durable, open_store, record, run, small

COUNT, ROUNDS, FILE_BYTES = 90, 60, 16384
Found = list[tuple[str, int, int, bytes]]


async def fill(scene: Scene, rng: random.Random) -> None:
    store = open_store(small(scene.store))
    for number in range(COUNT):
        body = b"%d " % number + rng.randbytes(rng.randrange(900))
        await durable(store, store.append([record(topic=rng.choice(("A", "B")), queue_id=rng.randrange(2), body=body)]))
    await store.close()


async def found(root: Path) -> tuple[Found, dict[tuple[str, int], int]]:
    """The messages, and the ends of the queues."""
    store = open_store(small(root))
    messages = [
        (message.topic, message.queue_id, int(message.queue_offset), message.body)
        for message in store.scan(store.min_log_offset)
    ]
    ends = {(topic, queue): store.queue_range(topic, queue)[1] for topic, queue in store.queues()}
    await store.close()
    return messages, ends


@pytest.mark.slow
def test_damage_is_what_it_was(tmp_path: Path) -> None:
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    damaged = 0
    for number in range(ROUNDS):
        scene = Scene(tmp_path / str(number))
        run(fill(scene, rng))
        for _ in range(rng.randrange(1, 4)):
            spoil(scene, rng)
        damaged += bool(scene.take().stored.manifest.log.damaged)
        assert scene.problems() == []
        scene.restore()
        # So that the broker reads all of its log, and not the end of it alone.
        shutil.rmtree(scene.store / "consumequeue")
        assert run(found(scene.root / "restored")) == run(found(scene.store)), number
    print(f"{damaged} of {ROUNDS} logs had damage before their end")
    assert damaged > ROUNDS // 2


def spoil(scene: Scene, rng: random.Random) -> None:
    """Other bytes, or zeros, in one file of the log."""
    files = sorted((scene.store / "commitlog").iterdir())
    end = len(scene.log().rstrip(b"\0"))
    at, length = rng.randrange(end), rng.choice((1, 1, 40, 700, 3000))
    place = at % FILE_BYTES
    length = min(length, FILE_BYTES - place, end - at)
    data = bytearray(files[at // FILE_BYTES].read_bytes())
    data[place : place + length] = rng.choice((bytes(length), rng.randbytes(length)))
    files[at // FILE_BYTES].write_bytes(data)
