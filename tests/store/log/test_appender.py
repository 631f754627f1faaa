"""The way into the log, and everything that can go wrong on it."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import DiskFull, InvariantViolated, MessageIllegal, StoreError, StoreUnavailable, TooManyOpenFiles
from gantrymq.protocol.stored_message import pack_host, record_size
from gantrymq.runtime.disk import File, Usage
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.config import FlushDiskType
from gantrymq.store.dispatch import tags_code_of
from gantrymq.store.log.appender import APPENDS_PER_WRITE
from gantrymq.store.message_store import MessageStore
from gantrymq.store.room import Use
from gantrymq.store.values import NewRecord
from tests.support.places import HOST, durable, open_store, record, run, small
from tests.support.records import encode_record
from tests.support.sim_clock import SimClock, settle

ROOT = "/data/store"


def opened(disk: SimDisk, clock: SimClock | None = None, **settings: object) -> MessageStore:
    return open_store(small(ROOT, **settings), disk, clock or SimClock())


def test_one_write_for_a_turn_and_one_sync_for_all_who_wait() -> None:
    async def scenario() -> None:
        disk = SimDisk()
        store = opened(disk)
        await durable(store, store.append([record()]))
        await settle()
        before = disk.operations
        answers: list[StoreError | None] = []
        for _ in range(APPENDS_PER_WRITE):
            store.safety.when_safe(store.append([record()])[0].end, answers.append)
        assert (store.appended > store.written, answers) == (True, [])
        await settle()
        assert answers == [None] * APPENDS_PER_WRITE
        assert disk.operations - before == 3  # the write, the sync, and the note of the durable position

    run(scenario())


def test_a_busy_turn_is_written_in_pieces_so_that_the_disk_begins_early() -> None:
    async def scenario() -> None:
        disk = SimDisk()
        store = opened(disk)
        await durable(store, store.append([record()]))
        await settle()
        before = disk.operations
        answers: list[StoreError | None] = []
        for _ in range(3 * APPENDS_PER_WRITE + 2):
            store.safety.when_safe(store.append([record()])[0].end, answers.append)
        assert store.flushed < store.written < store.appended and not answers
        await settle()
        assert answers == [None] * (3 * APPENDS_PER_WRITE + 2)
        # Four writes; a sync (with its note) that began after the first, and one for everything written meanwhile.
        assert disk.operations - before == 4 + 2 * 2

    run(scenario())


def test_the_next_sync_starts_when_the_one_before_has_ended() -> None:
    async def scenario() -> None:
        disk = SimDisk()
        store = opened(disk)
        disk.hold_syncs = True
        answers: list[str] = []

        def append(name: str) -> None:
            store.safety.when_safe(store.append([record()])[0].end, lambda error: answers.append(f"{name} {error}"))

        append("first")
        await settle()
        assert disk.held == 1
        for name in ("second", "third"):
            append(name)
            await settle()
        assert (disk.held, answers, store.queue_range("Orders", 0)) == (1, [], (0, 0))
        disk.release_sync()
        await settle()
        assert (disk.held, answers, store.queue_range("Orders", 0)) == (1, ["first None"], (0, 1))
        disk.release_sync()
        await settle()
        assert answers == ["first None", "second None", "third None"] and store.queue_range("Orders", 0) == (0, 3)

    run(scenario())


def test_async_flush_answers_after_the_write_and_syncs_twice_a_second() -> None:
    async def scenario() -> None:
        disk, clock = SimDisk(), SimClock()
        store = opened(disk, clock, flush_disk_type=FlushDiskType.ASYNC_FLUSH)
        placed = store.append([record()])
        await settle()
        assert (store.written, store.flushed) == (placed[0].end, 0)
        assert store.queue_range("Orders", 0) == (0, 1)
        answers: list[StoreError | None] = []
        store.safety.when_safe(placed[0].end, answers.append)
        assert answers == [None]
        await clock.advance(0.5)
        assert store.flushed == placed[0].end
        store.append([record()])
        await store.flush_everything()
        assert store.flushed == store.appended

    run(scenario())


def test_waiting_for_the_write_only() -> None:
    async def scenario() -> None:
        disk = SimDisk()
        store = opened(disk)
        disk.hold_syncs = True
        answers: list[object] = []
        placed = store.append([record()])
        store.safety.when_written(placed[0].end, answers.append)
        await settle()
        store.safety.when_written(placed[0].end, answers.append)
        assert answers == [None, None] and store.flushed == 0

    run(scenario())


@pytest.mark.parametrize("mode", list(FlushDiskType))
def test_a_full_disk_takes_nothing_of_a_write_and_goes_on_later(mode: FlushDiskType) -> None:
    async def scenario() -> None:
        disk = SimDisk()
        store = opened(disk, flush_disk_type=mode)
        first = store.append([record(body=b"1" * 100)])
        assert await durable(store, first) is None
        disk.free_bytes = 512
        answers: list[StoreError | None] = []
        failed = []
        for number in range(5):
            failed += store.append([record(queue_id=number % 2, body=b"2" * 200)])
            store.safety.when_safe(failed[-1].end, answers.append)
        await settle()
        assert len(answers) == 5 and all(isinstance(answer, DiskFull) for answer in answers)
        assert answers[0] is not None and answers[0].retryable
        assert store.appended == store.written == first[0].end
        assert (store.next_offset("Orders", 0), store.next_offset("Orders", 1)) == (1, 0)
        assert store.get("Orders", 0, 0, 10, 1000).count == 1  # reads go on
        log = disk.open(f"{ROOT}/commitlog/{0:020d}")
        assert not any(log.read(16384, first[0].end))
        disk.free_bytes = None
        again = store.append([record(body=b"3")])
        assert (again[0].log_offset, again[0].queue_offset) == (first[0].end, 1)
        assert await durable(store, again) is None
        await store.close()
        after = opened(disk)
        assert [m.body for m in after.scan(0)] == [b"1" * 100, b"3"]

    run(scenario())


def test_a_disk_that_fills_up_behind_a_file_boundary_takes_nothing_either() -> None:
    async def scenario() -> None:
        disk = SimDisk()
        store = opened(disk)
        first = store.append([record(body=b"1" * 15000)])
        assert await durable(store, first) is None
        disk.free_bytes = 2048
        one, two = store.append([record(body=b"2" * 500)]), store.append([record(body=b"3" * 3000)])
        assert two[0].log_offset == 16384
        answer = await durable(store, two)
        assert isinstance(answer, DiskFull) and store.appended == first[0].end == one[0].log_offset
        disk.free_bytes = None
        again = store.append([record(body=b"4" * 3000)])
        assert again[0].log_offset == 16384 and await durable(store, again) is None
        await store.close()
        assert [m.body[:1] for m in opened(disk).scan(0)] == [b"1", b"4"]

    run(scenario())


def test_above_the_warning_ratio_messages_are_refused_until_there_is_space() -> None:
    async def scenario() -> None:
        disk, clock = SimDisk(), SimClock()
        store = opened(disk, clock)
        assert await durable(store, store.append([record()])) is None
        disk.used_bytes = disk.total_bytes * 91 // 100
        assert await durable(store, store.append([record()])) is None and store.refusal is None  # believed for a while
        await clock.advance(10)
        assert await durable(store, store.append([record()])) is None  # this write asked again
        with pytest.raises(DiskFull, match=r"91.0% full, above diskSpaceWarningLevelRatio"):
            store.room.check(Use.MESSAGE)
        assert store.refusal is not None and store.get("Orders", 0, 0, 9, 9999).count == 3
        for use in (Use.COPY, Use.DECISION):
            store.room.check(use)
        assert await durable(store, store.append([record()])) is None, "the rest of the disk is for decisions"
        disk.used_bytes = 0
        await clock.advance(10)
        store.room.check(Use.MESSAGE)
        assert store.refusal is None
        await store.close()

    run(scenario())


class TwoFileSystems(SimDisk):
    """The log lies on a disk of its own, ``fullness_of_log`` full."""

    fullness_of_log = 0

    def usage(self, path: str) -> Usage:
        if path.startswith("/log"):
            return Usage(100, self.fullness_of_log, 100 - self.fullness_of_log)
        return super().usage(path)


def test_the_file_system_of_the_log_counts_too() -> None:
    async def scenario() -> None:
        disk, clock = TwoFileSystems(), SimClock()
        store = open_store(small("/data/store", log_directory="/log"), disk, clock)
        disk.fullness_of_log = 91
        await clock.advance(10)
        assert await durable(store, store.append([record()])) is None
        with pytest.raises(DiskFull, match=r"file system of /log is 91.0% full"):
            store.room.check(Use.MESSAGE)
        await store.close()

    run(scenario())


class NoDescriptors(SimDisk):
    """While ``taken`` is true no file can be opened."""

    taken = False

    def open(self, path: str, *, create: bool = False) -> File:
        if self.taken:
            raise TooManyOpenFiles(f"too many open files to open {path}")
        return super().open(path, create=create)


def test_without_a_descriptor_for_the_next_log_file_appends_are_refused_until_there_is_one() -> None:
    async def scenario() -> None:
        disk, clock = NoDescriptors(), SimClock()
        store = opened(disk, clock)
        disk.taken = True
        count = 0
        with pytest.raises(StoreUnavailable, match="too many open files"):
            while True:
                assert await durable(store, store.append([record(body=b"x" * 500)])) is None
                count += 1
        assert store.get("Orders", 0, 0, 99, 99_999).count == min(count, 99)
        disk.taken = False
        assert await durable(store, store.append([record(body=b"x" * 500)])) is None
        assert store.queue_range("Orders", 0) == (0, count + 1)
        await store.close()

    run(scenario())


def test_without_descriptors_marks_wait_and_are_made_later() -> None:
    """The files of a mark are opened in the background; that none could be opened is no failed sync, which is final."""

    async def scenario() -> None:
        disk, clock = NoDescriptors(), SimClock()
        store = opened(disk, clock)
        assert await durable(store, store.append([record()])) is None
        await clock.advance(2)
        disk.taken = True
        await clock.advance(30)
        disk.taken = False
        assert await durable(store, store.append([record()])) is None
        await clock.advance(30)
        assert store._derived._marked == store.max_log_offset
        await store.close()

    run(scenario())


def test_a_failed_sync_is_final() -> None:
    async def scenario() -> None:
        disk = SimDisk()
        store = opened(disk)
        first = store.append([record(body=b"kept")])
        assert await durable(store, first) is None
        disk.fail_next_sync("commitlog")
        lost = store.append([record(body=b"lost?")])
        answer = await durable(store, lost)
        assert isinstance(answer, StoreUnavailable) and not isinstance(answer, DiskFull)
        assert "sync of the log failed" in answer.reason and "start the broker again" in answer.reason
        with pytest.raises(StoreUnavailable, match="sync of the log failed"):
            store.append([record()])
        later: list[StoreError | None] = []
        store.safety.when_safe(lost[0].end, later.append)
        store.safety.when_written(lost[0].end + 1, later.append)
        assert [type(error) for error in later] == [StoreUnavailable] * 2
        with pytest.raises(StoreUnavailable):
            await store.flush_everything()
        assert store.queue_range("Orders", 0) == (0, 1) and store.get("Orders", 0, 0, 9, 999).count == 1
        await store.close()
        assert disk.exists(f"{ROOT}/abort")  # the next start recovers
        after = opened(disk.power_cut())
        assert next(m.body for m in after.scan(0)) == b"kept"
        assert await durable(after, after.append([record()])) is None

    run(scenario())


def test_a_group_goes_into_one_file() -> None:
    async def scenario() -> None:
        store = opened(SimDisk())
        assert await durable(store, store.append([record(body=b"x" * 15500)])) is None
        group = store.append([record(body=b"a" * 300), record(queue_id=1, body=b"b" * 300), record(body=b"c" * 300)])
        assert [place.log_offset // 16384 for place in group] == [1, 1, 1]
        assert [place.queue_offset for place in group] == [1, 0, 2]
        assert [one.end for one in group[:-1]] == [one.log_offset for one in group[1:]]
        assert await durable(store, group) is None
        assert len(list(store.scan(0))) == 4

    run(scenario())


def test_what_fits_into_no_file_or_no_record_is_refused_whole() -> None:
    async def scenario() -> None:
        store = opened(SimDisk())
        with pytest.raises(MessageIllegal, match="mappedFileSizeCommitLog"):
            store.append([record(body=b"x" * 16384)])
        with pytest.raises(MessageIllegal, match="mappedFileSizeCommitLog"):
            store.append([record(body=b"x" * 9000)] * 2)
        with pytest.raises(MessageIllegal, match="fit"):
            store.append([record(), record(flag=1 << 40)])
        assert (store.appended, store.next_offset("Orders", 0)) == (0, 0)
        placed = store.append([record()])
        assert placed[0].queue_offset == 0 and await durable(store, placed) is None

    run(scenario())


def test_prepared_records_take_no_place_in_a_queue() -> None:
    async def scenario() -> None:
        store = opened(SimDisk())
        placed = store.append([record(sys_flag=4), record(sys_flag=12), record(sys_flag=8), record()])
        assert [place.queue_offset for place in placed] == [0, 0, 0, 1]
        assert await durable(store, placed) is None
        assert store.queue_range("Orders", 0) == (0, 2) and len(list(store.scan(0))) == 4
        for kind, numbers in ((0, [3]), (4, [0]), (8, [2]), (12, [1])):
            assert [m.log_offset for m in store.scan(0, only=kind)] == [placed[number].log_offset for number in numbers]
        assert store.read(placed[0].log_offset) is None  # nothing proves that a record starts there
        await store.close()

    run(scenario())


def test_store_times_never_go_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        late = open_store(small(tmp_path), clock=SimClock(2_000_000_000_000))
        await durable(late, late.append([record()]))
        await late.close()
        early = open_store(small(tmp_path), clock=SimClock(1_000_000_000_000))
        assert early.append([record()])[0].store_timestamp == 2_000_000_000_000
        await early.close()

    run(scenario())


@pytest.mark.parametrize("text", ["", "UNIQ_KEY\x0170\x02TAGS\x01paid\x02", "KEYS\x01ä\x02"])
@pytest.mark.parametrize("host", [bytes(8), bytes(20)])
@pytest.mark.parametrize("sys_flag", [0, 1, 4, 8])
def test_a_record_given_by_its_fields_is_stored_like_any_other(text: str, host: bytes, sys_flag: int) -> None:
    async def scenario(*, plain: bool) -> tuple[object, ...]:
        store = opened(SimDisk())
        await durable(store, store.append([record()]))
        fields = ("topic", 0, b"a body", text)
        birth = (1_763_700_000_000, host, 3, sys_flag, 2)
        places = [
            store.appender.append_plain(*fields, birth) if plain else store.append([NewRecord(*fields, *birth)])[0]
            for _ in range(2 * APPENDS_PER_WRITE + 1)
        ]
        await durable(store, places)
        await settle()
        last = places[-1]
        entry = store.entry("topic", 0, last.queue_offset)
        return places, store.read(last.log_offset), entry, store.flushed

    results = []
    for plain in (True, False):
        run(collect(scenario(plain=plain), results))
    assert results[0] == results[1]


async def collect(scenario: Coroutine[object, object, tuple[object, ...]], results: list[tuple[object, ...]]) -> None:
    results.append(await scenario)


def append_pair(
    store: MessageStore, topic: str, body: bytes, topic2: str, body2: bytes, more: int = 0
) -> tuple[int, int, int]:
    sizes = [record_size(len(name), len(content), 0) for name, content in ((topic, body), (topic2, body2))]
    queue, queue2 = store.appender.queue(topic, 0), store.appender.queue(topic2, 0)
    place, now = store.appender.begin_pair(sum(sizes))
    middle, offset, offset2 = place + sizes[0], queue.next_offset, queue2.next_offset
    data = encode_record(topic.encode(), body, b"", 0, offset, place, 5, bytes(8), now, HOST)
    data += encode_record(topic2.encode(), body2, b"", 0, offset2, middle, 5, bytes(8), now, HOST)
    store.appender.add_pair(
        data,
        (middle, queue, offset, place, sizes[0] + more, 0, "", now, topic, "", 0),
        (middle + sizes[1], queue2, offset2, middle, sizes[1], 0, "", now, topic2, "", 0),
    )
    return place, middle + sizes[1], offset2


def test_a_pair_lies_side_by_side_in_one_write_and_one_file() -> None:
    async def scenario(*, pair: bool) -> tuple[object, ...]:
        store = opened(SimDisk())
        await durable(store, store.append([record()]))
        ends = []
        for number in range(200):  # over the end of a file
            body = bytes(number)
            if pair:
                start, end, offset = append_pair(store, "one", body, "two", b"end")
            else:
                placed = store.append(
                    [NewRecord("one", 0, body, "", 5, bytes(8)), NewRecord("two", 0, b"end", "", 5, bytes(8))]
                )
                start, end, offset = placed[0].log_offset, placed[1].end, placed[1].queue_offset
            ends.append((start, end, offset))
        done: list[StoreError | None] = []
        store.safety.when_safe(end, done.append)
        await settle()
        assert done == [None]
        return ends, [(found.log_offset, found.body) for found in store.scan(0)], store.queue_range("two", 0)

    results: list[tuple[object, ...]] = []
    for pair in (True, False):
        run(collect(scenario(pair=pair), results))
    assert results[0] == results[1]


def test_a_pair_that_does_not_keep_its_promises_is_not_appended() -> None:
    async def scenario() -> None:
        store = opened(SimDisk())
        await durable(store, store.append([record()]))
        appended = store.appended
        with pytest.raises(InvariantViolated, match="sizes"):
            append_pair(store, "one", b"x", "two", b"y", 300)
        with pytest.raises(InvariantViolated, match="two queues"):
            append_pair(store, "one", b"x", "one", b"y")
        assert (store.appended, store.next_offset("one", 0)) == (appended, 0)

    run(scenario())


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=9)
ITEM = st.tuples(st.binary(min_size=1, max_size=9), TEXTS, st.integers(-9, 9), st.booleans())
ITEMS = st.lists(ITEM, min_size=1, max_size=25)


@pytest.mark.slow
@given(ITEMS, st.sampled_from(["Orders", "o" * 127, "o" * 128]), st.sampled_from([HOST, pack_host("[::1]:1")]))
def test_a_run_has_the_bytes_of_records_that_were_appended_one_by_one(
    items: list[tuple[bytes, str, int, bool]], topic: str, born_host: bytes
) -> None:
    given_items = [
        (body, f"TAGS\x01t{text}\x02UNIQ_KEY\x01U{number}\x02KEYS\x01k {number}\x02", flag, known)
        for number, (body, text, flag, known) in enumerate(items)
    ]

    async def story(*, together: bool) -> object:
        store = opened(SimDisk())
        store.append([NewRecord(topic, 3, b"first", "", 0, HOST)])
        if together:
            placed = store.appender.append_run(
                topic, 3,
                [
                    (body, text, flag, f"U{number}" if known else None, tags_code_of(text) if known else None)
                    for number, (body, text, flag, known) in enumerate(given_items)
                ],
                (1234, born_host, 0, 8, 2),
            )  # fmt: skip
            assert (placed is None) == (len(topic) > 127 or len(born_host) > 8)
            if placed is None:
                return None
            offset, _, places, records = placed
            lengths = [len(record) for record in records]
        else:
            single = [
                store.appender.append_plain(topic, 3, body, text, (1234, born_host, flag, 8, 2))
                for body, text, flag, _ in given_items
            ]
            offset, places = single[0].queue_offset, [place.log_offset for place in single]
            lengths = [place.size for place in single]
        await store.flush_everything()
        entries = [store.entry(topic, 3, number) for number in range(len(items) + 2)]
        keys = [store.query(topic, key, 64) for key in ("U0", "k", "1")]
        found = list(store.scan(0)), entries, keys
        await store.close()
        return offset, places, lengths, *found

    together = run(story(together=True))
    assert together is None or together == run(story(together=False))


def test_a_run_that_does_not_fit_into_the_file_is_not_appended() -> None:
    async def story() -> None:
        store = opened(SimDisk())
        store.append([record()])
        items = [(b"x" * 1000, "", 0, None, None)] * 200
        before = store.appended
        assert store.appender.append_run("Orders", 0, items, (0, HOST, 0, 0, 0)) is None
        assert (store.appended, store.next_offset("Orders", 0)) == (before, 1)
        await store.close()

    run(story())
