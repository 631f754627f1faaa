from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.errors import StoreLocked, StoreUnavailable
from gantrymq.message.tags import tags_code
from gantrymq.protocol.stored_message import scan
from gantrymq.store.config import FlushDiskType
from gantrymq.store.dispatch import tags_code_of
from gantrymq.store.values import Boundary, GetStatus
from tests.support.places import durable, open_store, record, run, small


@pytest.mark.parametrize("mode", list(FlushDiskType))
def test_what_was_acknowledged_is_there_after_an_orderly_restart(tmp_path: Path, mode: FlushDiskType) -> None:
    async def scenario() -> None:
        store = open_store(small(tmp_path / "store", flush_disk_type=mode))
        placed = [store.append([record(queue_id=n % 3, body=b"%d" % n)])[0] for n in range(300)]
        assert await durable(store, placed) is None
        assert store.flushed <= store.written == store.appended == placed[-1].end
        await store.close()
        assert not (tmp_path / "store/abort").exists()

        again = open_store(small(tmp_path / "store"))
        assert [again.queue_range("Orders", n) for n in range(3)] == [(0, 100)] * 3
        found = again.get("Orders", 1, 0, 1000, 1 << 20)
        assert (found.status, found.next_offset, found.count) == (GetStatus.FOUND, 100, 100)
        assert [message.body for message in scan(found.data)] == [b"%d" % n for n in range(1, 300, 3)]
        assert [message.log_offset for message in again.scan(0)] == [place.log_offset for place in placed]
        message = again.read(placed[7].log_offset)
        assert message is not None and message.body == b"7" and message.queue_offset == 2
        assert again.next_offset("Orders", 1) == 100
        await again.close()

    run(scenario())


def test_an_append_is_visible_only_when_it_is_durable(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(small(tmp_path))
        observed: list[tuple[str, int, int, int, str]] = []
        store.arrivals.append(
            lambda topic, queue_id, found: observed.extend([(topic, queue_id, *one[2:3], *one[5:7]) for one in found])
        )
        placed = store.append([record(), record(queue_id=2)])
        assert store.queue_range("Orders", 0) == (0, 0) and store.read(0) is None and not observed
        assert store.get("Orders", 0, 0, 1, 100).status is GetStatus.NO_MESSAGE_IN_QUEUE
        assert await durable(store, placed) is None
        assert store.queue_range("Orders", 0) == (0, 1)
        assert [place[:4] for place in observed] == [
            ("Orders", 0, 0, tags_code("paid")),
            ("Orders", 2, 0, tags_code("paid")),
        ]
        assert {tags_code_of(place[4]) for place in observed} == {tags_code("paid")}
        await store.close()

    run(scenario())


def test_statuses_of_a_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(small(tmp_path))
        placed = store.append([record(body=b"x" * 50, properties=f"TAGS\x01{tag}\x02") for tag in "abab"])
        await durable(store, placed)

        def status(offset: int, *tags: str) -> tuple[GetStatus, int]:
            codes = frozenset(tags_code(tag) for tag in tags) if tags else None
            answer = store.get("Orders", 0, offset, 32, 1 << 20, codes)
            return answer.status, answer.next_offset

        assert store.get("Nothing", 0, 5, 1, 1).status is GetStatus.NO_MATCHED_LOGIC_QUEUE
        assert status(4) == (GetStatus.OFFSET_OVERFLOW_ONE, 4)
        assert status(9) == (GetStatus.OFFSET_OVERFLOW_BADLY, 4)
        assert status(-1) == (GetStatus.OFFSET_TOO_SMALL, 0)
        assert status(0, "c") == (GetStatus.NO_MATCHED_MESSAGE, 4)
        assert status(0, "a") == (GetStatus.FOUND, 4)
        assert store.get("Orders", 0, 0, 32, 1, None).count == 1  # at least one, however large
        assert store.get("Orders", 0, 0, 2, 1 << 20, frozenset({tags_code("b")})).count == 2
        await store.close()

    run(scenario())


def test_search_by_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(small(tmp_path))
        placed = store.append([record(), record()])
        await durable(store, placed)
        time = placed[0].store_timestamp
        assert store.store_time("Orders", 0, 1) == time and store.store_time("Orders", 0, 2) is None
        answers = [
            store.offset_by_time("Orders", 0, time + shift, boundary) for boundary in Boundary for shift in (-1, 0, 1)
        ]
        assert answers == [0, 0, 2, 0, 1, 1]
        assert store.offset_by_time("Nothing", 0, time) == 0
        await store.close()

    run(scenario())


def test_a_closed_store_refuses_appends_and_gives_up_its_lock(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(small(tmp_path))
        await store.close()
        await store.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            store.append([record()])
        await open_store(small(tmp_path)).close()

    run(scenario())


def test_a_lock_of_another_process_is_respected(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from gantrymq.runtime.disk import OsDisk; lock = OsDisk().lock(sys.argv[1]); "
        "print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == b"locked\n"
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(StoreLocked, match="another process"):
            open_store(small(tmp_path))
        assert sorted(path.name for path in tmp_path.iterdir()) == before
        other.stdin.close()
