from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import struct
from pathlib import Path

import pytest

from gantrymq.errors import StoreError
from gantrymq.protocol.stored_message import scan
from gantrymq.runtime.disk import OsDisk
from gantrymq.simulation.world.disk import PowerCut, SimDisk
from gantrymq.store.files.checkpoint import MarkFile
from gantrymq.store.message_store import MessageStore
from gantrymq.store.recovery.cases import Case
from gantrymq.store.values import GetStatus, Placement
from tests.support.places import durable, open_store, record, run, small


async def fill(root: Path, count: int = 60, *, die: bool = False) -> list[Placement]:
    """A store with some records in two queues; with ``die`` it looks as if the process was killed."""
    store = open_store(small(root))
    placed = []
    for number in range(count):
        placed += store.append([record("Orders", number % 2, b"%03d" % number * 40)])
    assert await durable(store, placed) is None
    await store.close()
    if die:
        (root / "abort").touch()
    return placed


def case_of(root: Path) -> tuple[Case, int]:
    """Case and number of records read at a start."""

    async def scenario() -> tuple[Case, int]:
        store = open_store(small(root))
        check(store)
        found = store.recovered.case, store.recovered.records
        await store.close()
        return found

    return run(scenario())


def check(store: MessageStore, count: int = 60) -> None:
    """All records and both queues are there."""
    assert len(list(store.scan(0))) == count
    for queue in (0, 1):
        answer = store.get("Orders", queue, 0, 1000, 1 << 20)
        assert [m.queue_offset for m in scan(answer.data)] == list(range(count // 2))


def test_every_case_ends_with_the_same_store(tmp_path: Path) -> None:
    root = tmp_path / "store"

    async def empty() -> Case:
        store = open_store(small(root))
        await store.close()
        return store.recovered.case

    assert run(empty()) is Case.NEW
    assert run(empty()) is Case.NEW
    run(fill(root))
    assert case_of(root) == (Case.CLEAN, 0)
    (root / "abort").touch()
    assert case_of(root) == (Case.MARKED, 0)
    (root / "abort").touch()
    (root / "gantry/mark").unlink()
    assert case_of(root)[0] is Case.APACHE_DIED
    for name in ("abort", "gantry/mark", "checkpoint"):
        (root / name).unlink(missing_ok=True)
    (root / "abort").touch()
    assert case_of(root) == (Case.UNKNOWN, 60)
    for path in (root / "consumequeue").rglob("*"):
        if path.is_file():
            path.unlink()
    assert case_of(root) == (Case.UNKNOWN, 60)


def test_queues_without_a_log_are_emptied(tmp_path: Path) -> None:
    run(fill(tmp_path))
    for path in (tmp_path / "commitlog").iterdir():
        path.unlink()

    async def scenario() -> None:
        store = open_store(small(tmp_path))
        assert store.recovered.case is Case.NO_LOG
        assert store.queue_range("Orders", 0) == (0, 0) and store.queues() == []
        placed = store.append([record("Orders", 0)])
        assert placed[0].queue_offset == 0 and await durable(store, placed) is None
        await store.close()

    run(scenario())


def test_the_mark_of_another_log_is_not_believed(tmp_path: Path) -> None:
    run(fill(tmp_path / "one", 60, die=True))
    run(fill(tmp_path / "other", 10))
    (tmp_path / "other/gantry/mark").replace(tmp_path / "one/gantry/mark")
    (tmp_path / "one/commitlog/00000000000000000000").write_bytes(
        (tmp_path / "one/commitlog/00000000000000000000").read_bytes()
    )
    case, _records = case_of(tmp_path / "one")
    assert case is not Case.MARKED


def damage(root: Path, position: int, data: bytes) -> None:
    path = root / f"commitlog/{position // 16384 * 16384:020d}"
    with path.open("r+b") as file:
        file.seek(position % 16384)
        file.write(data)


@pytest.mark.parametrize("left", [b"", bytes(4), b"\0\0\0\0\0\0\x10"])
@pytest.mark.parametrize("torn", [0, 2])
def test_a_torn_queue_entry_names_no_other_record(tmp_path: Path, left: bytes, torn: int) -> None:
    """A power cut may keep an entry's size and lose its log offset, which then names an old record, or none.

    Found by simulation, seed 56: a half message was taken for the first one of the log, and that was committed twice.
    """
    run(fill(tmp_path))
    mark = (tmp_path / "gantry/mark").read_bytes()

    async def add() -> None:
        store = open_store(small(tmp_path))
        assert await durable(store, store.append([record("Orders", 0, b"new%d" % n) for n in range(4)])) is None
        await store.close()

    run(add())
    (tmp_path / "gantry/mark").write_bytes(mark)
    (tmp_path / "abort").touch()
    files = sorted((tmp_path / "consumequeue/Orders/0").iterdir())
    size = files[0].stat().st_size
    at = (30 + torn) * 20
    with files[at // size].open("r+b") as file:
        file.seek(at % size)
        file.write(left.ljust(8, b"\0"))

    async def scenario() -> None:
        store = open_store(small(tmp_path))
        assert store.recovered.case is Case.MARKED
        answer = store.get("Orders", 0, 30, 10, 1 << 20)
        assert [m.body for m in scan(answer.data)] == [b"new0", b"new1", b"new2", b"new3"]
        await store.close()

    run(scenario())


@pytest.mark.parametrize("die", [False, True], ids=["shut down", "died"])
@pytest.mark.parametrize("entry", [0, 1, 15, 28, 29])
@pytest.mark.parametrize(("byte", "bit"), [(0, 7), (0, 0), (4, 6), (6, 2), (7, 0), (8, 7), (11, 3)])
def test_a_flipped_queue_entry_costs_no_other_message_its_place(
    tmp_path: Path, byte: int, bit: int, entry: int, die: bool
) -> None:
    """Found by simulation, seed 15: a message got the queue offset of an older one, and no reader asked for it."""
    root = tmp_path / "store"

    async def scenario() -> None:
        await fill(root, die=die)
        files = sorted((root / "consumequeue/Orders/0").iterdir())
        number, at = divmod(entry * 20 + byte, files[0].stat().st_size)
        data = bytearray(files[number].read_bytes())
        data[at] ^= 1 << bit
        files[number].write_bytes(data)
        store = open_store(small(root))
        (placed,) = store.append([record("Orders", 0, b"new")])
        assert placed.queue_offset == 30
        assert await durable(store, [placed]) is None
        found: set[int] = set()
        for offset in range(31):
            found |= {m.queue_offset for m in scan(store.get("Orders", 0, offset, 1, 1 << 20).data)}
        assert found >= set(range(31)) - {entry}
        await store.close()

    run(scenario())


@pytest.mark.parametrize("die", [False, True], ids=["shut down", "died"])
def test_an_impossible_queue_offset_is_damage(tmp_path: Path, die: bool) -> None:
    """No checksum covers it. Found by simulation, seed 111: the queue was to be filled with 2^50 blank entries."""
    root = tmp_path / "store"

    async def scenario() -> None:
        placed = await fill(root, die=die)
        shutil.rmtree(root / "consumequeue")
        damage(root, placed[4].log_offset + 20, b"\0\4")
        store = open_store(small(root))
        assert store.recovered.quarantined == {placed[4].log_offset: placed[5].log_offset}
        answer = store.get("Orders", 0, 0, 1000, 1 << 20)
        assert [m.queue_offset for m in scan(answer.data)] == [n for n in range(30) if n != 2]
        await store.close()

    run(scenario())


def test_a_start_notes_that_what_it_found_is_durable(tmp_path: Path) -> None:
    """Found by simulation, seed 100243: without its mark a store cut off its log at the first damage."""
    root = tmp_path / "store"

    async def scenario() -> None:
        await fill(root, die=True)
        (root / "gantry/mark").unlink()
        store = open_store(small(root))
        data = (root / "gantry/mark").read_bytes()
        assert int.from_bytes(data[4:12], "big") == store.recovered.end > 0
        await store.close()

    run(scenario())


def test_a_power_cut_does_not_take_what_a_start_noted() -> None:
    """Found by simulation, seed 200226: the next start took old damage for a torn tail, and cut off all behind it."""

    async def scenario(seed: int) -> None:
        disk = SimDisk(seed)
        store = open_store(small("/store"), disk)
        placed = [store.append([record(body=b"%03d" % number)])[0] for number in range(20)]
        assert await durable(store, placed) is None
        disk = disk.process_dies()
        for data in disk.bytes_of("/store/commitlog/00000000000000000000"):
            data[placed[3].log_offset + 4] ^= 1
        quarantined = {placed[3].log_offset: placed[3].end}
        store = open_store(small("/store"), disk)
        assert store.recovered.quarantined == quarantined
        store = open_store(small("/store"), disk.power_cut())
        assert (store.recovered.quarantined, store.recovered.cut_bytes) == (quarantined, 0)
        assert len(list(store.scan(0))) == 19

    for seed in range(10):
        run(scenario(seed))


def test_what_a_start_serves_is_on_the_disk_also_after_a_sync_that_failed() -> None:
    """Found by simulation, seed 22009449: the kernel takes pages for clean whose sync failed, so syncing them at the
    start did nothing. The next loss of power took a message that was committed in between."""

    async def scenario(seed: int) -> None:
        disk = SimDisk(seed)
        store = open_store(small("/store"), disk)
        assert await durable(store, store.append([record(body=b"safe")])) is None
        disk.fail_next_sync("commitlog")
        assert await durable(store, store.append([record(body=b"not safe")])) is not None
        store = open_store(small("/store"), disk := disk.process_dies())
        found = [message.body for message in store.scan(0)]
        store = open_store(small("/store"), disk.power_cut())
        assert [message.body for message in store.scan(0)] == found == [b"safe", b"not safe"]

    for seed in range(10):
        run(scenario(seed))


@pytest.mark.parametrize("killed_after", range(40))
def test_a_store_is_durable_whichever_step_of_its_beginning_was_its_last(killed_after: int) -> None:
    """Found by the model of timer messages: a process was killed when it had made the first file of the log, and not
    yet synced its directory. The next process found the file, and a power cut took it with all that was in it."""

    async def scenario(seed: int) -> None:
        disk = SimDisk(seed)
        disk.operations_left = killed_after
        with contextlib.suppress(PowerCut, StoreError):
            store = open_store(small("/store"), disk)
            store.append([record(body=b"perhaps")])
            for _ in range(20):
                await asyncio.sleep(0)
        disk = disk.process_dies()
        disk.operations_left = None
        store = open_store(small("/store"), disk)
        assert await durable(store, store.append([record(body=b"acknowledged")])) is None
        store = open_store(small("/store"), disk.process_dies().power_cut())
        assert [message.body for message in store.scan(0)][-1:] == [b"acknowledged"]

    for seed in range(5):
        run(scenario(seed))


def test_damage_in_the_last_durable_record_is_no_torn_tail(tmp_path: Path) -> None:
    """Its places, in log and queue, go to nobody else."""
    placed = run(fill(tmp_path, 60, die=True))
    damage(tmp_path, placed[-1].log_offset + 100, b"torn")

    async def scenario() -> None:
        store = open_store(small(tmp_path))
        assert store.recovered.quarantined == {} and store.next_offset("Orders", 1) == 30  # before the mark
        await store.close()
        (tmp_path / "abort").touch()
        shutil.rmtree(tmp_path / "consumequeue")
        with (tmp_path / "gantry/mark").open("r+b") as file:  # only the durable end is known
            file.truncate(4096)
        store = open_store(small(tmp_path))
        assert store.recovered.quarantined == {placed[-1].log_offset: placed[-1].end}
        again = store.append([record("Orders", 1)])[0]
        assert (again.log_offset, again.queue_offset) == (placed[-1].end, 30)
        await store.close()

    run(scenario())


def test_damage_right_before_the_noted_end_takes_nothing_behind_it(tmp_path: Path) -> None:
    """A power cut took the newer notes of what is durable. Found by simulation, seed 500037."""
    placed = run(fill(tmp_path, 60, die=True))
    victim = placed[40]
    damage(tmp_path, victim.log_offset + 100, b"torn")
    (tmp_path / "checkpoint").unlink()
    (tmp_path / "gantry/mark").unlink()
    note = MarkFile(OsDisk(), str(tmp_path / "gantry/mark"))
    note.note_flushed(victim.end)
    note.close()

    async def scenario() -> None:
        store = open_store(small(tmp_path))
        assert store.recovered.quarantined == {victim.log_offset: victim.end}
        assert len(list(store.scan(0))) == 59
        await store.close()

    run(scenario())


FIELDS = {"size": 0, "magic": 4, "checksum": 8, "place": 28, "body length": 84, "body": 90}


@pytest.mark.parametrize("topic", ["Orders", "Alone"])
@pytest.mark.parametrize("what", [*FIELDS, "topic length", "properties length"])
def test_the_place_of_a_damaged_record_is_given_to_no_other(tmp_path: Path, what: str, topic: str) -> None:
    """A consumer may have read it, and would miss the next one. Found by simulation, seed 101489."""
    body = b"about Orders"
    at = {**FIELDS, "topic length": 88 + len(body), "properties length": 89 + len(body) + len(topic)}[what]

    async def scenario() -> None:
        store = open_store(small(tmp_path))
        for _ in range(3):
            store.append([record("Orders", 1)])
        placed = [store.append([record(topic, 1, body)])[0], store.append([record("Notices", 1)])[0]]
        assert await durable(store, placed) is None
        await store.close()
        (tmp_path / "abort").touch()
        damage(tmp_path, placed[0].log_offset + at, b"\x03")
        shutil.rmtree(tmp_path / "consumequeue")
        store = open_store(small(tmp_path))
        assert store.recovered.quarantined == {placed[0].log_offset: placed[0].end}
        assert store.append([record(topic, 1)])[0].queue_offset == placed[0].queue_offset + 1
        await store.close()

    run(scenario())


def test_a_record_whose_topic_is_damaged_leaves_its_place_taken(tmp_path: Path) -> None:
    """No checksum covers the topic, and the record is in a queue of its own then. Found by simulation."""
    placed = run(fill(tmp_path, 60, die=True))
    damage(tmp_path, placed[-1].log_offset + 88 + 120 + 2, b"p")

    async def scenario() -> None:
        store = open_store(small(tmp_path))
        assert store.queue_range("Opders", 1)[1] == 30
        assert store.next_offset("Orders", 1) == 30
        store.append([record("Orders", 1, b"next")])
        await store.close()
        store = open_store(small(tmp_path))
        assert [m.queue_offset for m in scan(store.get("Orders", 1, 28, 9, 1 << 20).data)] == [28, 30]
        await store.close()

    run(scenario())


def test_a_torn_tail_is_cut_zeroed_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    placed = run(fill(tmp_path, 60, die=True))
    damage(tmp_path, placed[-1].log_offset + 100, b"torn")
    (tmp_path / "gantry/mark").unlink()
    (tmp_path / "checkpoint").unlink()

    async def scenario() -> None:
        with caplog.at_level(logging.WARNING):
            store = open_store(small(tmp_path))
        assert f"record at log offset {placed[-1].log_offset} is corrupt" in caplog.text and "cut" in caplog.text
        assert store.recovered.cut_bytes > 0 and store.recovered.end == placed[-1].log_offset
        assert store.queue_range("Orders", 1) == (0, 29) and store.next_offset("Orders", 1) == 29
        again = store.append([record("Orders", 1)])
        assert again[0].log_offset == placed[-1].log_offset and again[0].queue_offset == 29
        await store.close()

    run(scenario())
    last = (tmp_path / f"commitlog/{placed[-1].log_offset // 16384 * 16384:020d}").read_bytes()
    assert b"torn" not in last


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("what", ["body", "size", "magic", "zeros", "place"])
def test_damage_before_good_records_is_quarantined_not_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, killed: bool, what: str
) -> None:
    """What was acknowledged behind a bad record is kept; the bad one is named and never served."""
    placed = run(fill(tmp_path, 60, die=killed))
    victim = placed[30]
    at = victim.log_offset
    position, data = {
        "body": (at + 120, b"\xff\xff"),
        "size": (at, struct.pack(">i", 7_000_000)),
        "magic": (at + 4, b"nope"),
        "zeros": (at, bytes(victim.size)),
        "place": (at + 28, bytes(8)),
    }[what]
    damage(tmp_path, position, data)
    (tmp_path / "checkpoint").unlink()
    shutil.rmtree(tmp_path / "consumequeue")  # so that everything is read again
    if killed:
        with (tmp_path / "gantry/mark").open("r+b") as file:  # only the durable end is known
            file.truncate(4096)

    async def scenario() -> None:
        with caplog.at_level(logging.ERROR):
            store = open_store(small(tmp_path))
        if what == "zeros" and not killed:
            return  # after an orderly end zeros are the end
        assert store.recovered.quarantined == {at: victim.end}
        assert f"record at log offset {at} is corrupt" in caplog.text
        assert [m.log_offset for m in store.scan(0)] == [p.log_offset for p in placed if p is not victim]
        assert store.read(at) is None
        answer = store.get("Orders", 0, 0, 1000, 1 << 20)
        assert [m.queue_offset for m in scan(answer.data)] == [n for n in range(30) if n != 15]
        assert answer.next_offset == 30 and store.next_offset("Orders", 0) == 30
        alone = store.get("Orders", 0, 15, 1, 1 << 20)
        assert (alone.status, alone.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 16)
        await store.close()

    run(scenario())


def test_damage_that_no_start_reads_is_found_when_it_is_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    placed = run(fill(tmp_path))
    victim = placed[10]
    damage(tmp_path, victim.log_offset + 120, b"\xff\xff")

    async def scenario() -> None:
        store = open_store(small(tmp_path))
        assert store.recovered.records == 0
        answer = store.get("Orders", 0, 0, 1000, 1 << 20)
        assert [m.queue_offset for m in scan(answer.data)] == [n for n in range(30) if n != 5]
        assert f"record at log offset {victim.log_offset} is corrupt" in caplog.text
        alone = store.get("Orders", 0, 5, 1, 1 << 20)
        assert (alone.status, alone.next_offset, alone.data) == (GetStatus.MESSAGE_WAS_REMOVING, 6, b"")
        assert store.read(victim.log_offset) is None
        assert [m.log_offset for m in store.scan(0)] == [p.log_offset for p in placed if p is not victim]
        assert store.query("Orders", "order-1", 64)
        await store.close()

    run(scenario())


@pytest.mark.parametrize("at", [0, 4, 120])
def test_a_walk_through_the_log_goes_on_behind_damage_that_nobody_has_met(tmp_path: Path, at: int) -> None:
    """It looks for the commits of half messages: one behind the damage would be made a second time."""
    placed = run(fill(tmp_path))
    damage(tmp_path, placed[10].log_offset + at, b"\xff\xff")

    async def scenario() -> None:
        store = open_store(small(tmp_path))
        for _ in range(2):
            assert [m.log_offset for m in store.scan(0)] == [p.log_offset for p in placed if p is not placed[10]]
        assert store.recovered.records == 0
        await store.close()

    run(scenario())


def test_a_record_whose_parts_do_not_add_up_is_not_served(tmp_path: Path) -> None:
    """A client could not step over it, to the messages behind. Found by simulation, seed 101158."""
    placed = run(fill(tmp_path))
    damage(tmp_path, placed[10].log_offset + 88 + 120, b"\x16")  # the length of the topic

    async def scenario() -> None:
        store = open_store(small(tmp_path))
        assert store.recovered.records == 0
        answer = store.get("Orders", 0, 0, 1000, 1 << 20)
        assert [m.queue_offset for m in scan(answer.data)] == [n for n in range(30) if n != 5]
        await store.close()

    run(scenario())


def test_unsynced_leftovers_behind_a_gap_are_not_taken_for_messages(tmp_path: Path) -> None:
    """A power cut may keep the later half of a write without the first: neither was acknowledged."""
    placed = run(fill(tmp_path, 60, die=True))
    first_lost = placed[40]
    damage(tmp_path, first_lost.log_offset, bytes(first_lost.size))
    with (tmp_path / "gantry/mark").open("r+b") as file:  # as it was when record 40 was not yet durable
        file.write(bytes(8192))
    (tmp_path / "checkpoint").unlink()

    async def scenario() -> None:
        store = open_store(small(tmp_path))
        assert [m.log_offset for m in store.scan(0)] == [p.log_offset for p in placed[:40]]
        assert store.queue_range("Orders", 0) == (0, 20)
        await store.close()
        again = open_store(small(tmp_path))
        assert len(list(again.scan(0))) == 40
        await again.close()

    run(scenario())


def test_a_queue_whose_beginning_was_deleted_starts_with_blank_entries(tmp_path: Path) -> None:
    run(fill(tmp_path, 200))
    (tmp_path / "commitlog/00000000000000000000").unlink()
    shutil.rmtree(tmp_path / "consumequeue")

    async def scenario() -> None:
        store = open_store(small(tmp_path))
        least, most = store.queue_range("Orders", 0)
        assert most == 100 and 20 < least < 90 and store.min_log_offset == 16384
        assert store.get("Orders", 0, least, 1, 1000).count == 1
        assert store.get("Orders", 0, least - 1, 1, 1000).status is GetStatus.OFFSET_TOO_SMALL
        assert store.entry("Orders", 0, least - 1) is None
        await store.close()
        first = min((tmp_path / "consumequeue/Orders/0").iterdir())
        base = int(first.name) // 20
        assert base <= least and struct.unpack_from(">qiq", first.read_bytes()) == (
            (0, 0x7FFFFFFF, 0) if base < least else struct.unpack_from(">qiq", first.read_bytes())
        )

    run(scenario())
