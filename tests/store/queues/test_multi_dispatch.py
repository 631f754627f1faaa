"""Records with a place in a second queue: through every kind of start, as copies, and after deletions."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from gantrymq.message.lite_topics import lite_queue
from gantrymq.protocol.stored_message import decode_record, scan
from gantrymq.store.message_store import MessageStore
from gantrymq.store.queues.multi_dispatch import further_place, further_places
from gantrymq.store.recovery.cases import Case
from tests.support.places import durable, open_store, record, run, small

PARENT = "Baskets"
QUEUES = [lite_queue(PARENT, name) for name in "ab"]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("", []),
        ("KEYS\x01INNER_MULTI_DISPATCH\x02", []),
        ("INNER_MULTI_DISPATCH\x01%LMQ%$p$a\x02", []),
        ("INNER_MULTI_QUEUE_OFFSET\x017\x02", []),
        (further_place("%LMQ%$p$a", 7), [("%LMQ%$p$a", 7)]),
        (
            "INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x013,0\x02",
            [("%LMQ%a", 3), ("%LMQ%b", 0)],
        ),
        ("INNER_MULTI_DISPATCH\x01%LMQ%a,%LMQ%b\x02INNER_MULTI_QUEUE_OFFSET\x013\x02", []),
        ("INNER_MULTI_DISPATCH\x01Orders\x02INNER_MULTI_QUEUE_OFFSET\x013\x02", []),
        ("INNER_MULTI_DISPATCH\x01%LMQ%../../x\x02INNER_MULTI_QUEUE_OFFSET\x013\x02", []),
        ("INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x01-1\x02", []),
        (f"INNER_MULTI_DISPATCH\x01%LMQ%{'x' * 300}\x02INNER_MULTI_QUEUE_OFFSET\x010\x02", []),
    ],
)
def test_the_properties_say_where_a_record_is_found(text: str, places: list[tuple[str, int]]) -> None:
    assert further_places(text) == places


def put(store: MessageStore, number: int) -> None:
    """Every third record goes to the parent alone."""
    made = record(PARENT, number % 2, b"%03d" % number * 40)
    if number % 3 == 2:
        store.append([made])
    else:
        store.appender.append_to_two(made, QUEUES[number % 3])


async def fill(root: Path, count: int = 60, *, die: bool = False) -> None:
    store = open_store(small(root))
    for number in range(count):
        put(store, number)
    await store.flush_everything()
    await store.close()
    if die:
        (root / "abort").touch()


def bodies(store: MessageStore, queue: str) -> list[int]:
    return [int(message.body[:3]) for message in scan(store.get(queue, 0, 0, 1000, 1 << 20).data)]


def check(store: MessageStore, count: int = 60) -> None:
    for number, queue in enumerate(QUEUES):
        assert bodies(store, queue) == list(range(number, count, 3))
    places = [
        further_places(message.properties_text)
        for queue in QUEUES
        for message in scan(store.get(queue, 0, 0, 1000, 1 << 20).data)
    ]
    assert places == [[(queue, number)] for queue in QUEUES for number in range(count // 3)]
    assert sum(store.queue_range(PARENT, queue)[1] for queue in (0, 1)) == count


def opened(root: Path, count: int = 60) -> Case:
    async def scenario() -> Case:
        store = open_store(small(root))
        check(store, count)
        put(store, count)
        await store.flush_everything()
        assert bodies(store, QUEUES[0])[-1] == count
        await store.close()
        return store.recovered.case

    return run(scenario())


def test_both_queues_have_the_record_at_once_and_metrics_count_it_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(small(tmp_path / "store"))
        seen: list[tuple[str, int, int]] = []
        store.arrivals.append(lambda topic, queue, records: seen.extend((topic, queue, each[2]) for each in records))
        first = store.appender.append_to_two(record(PARENT, 1, b"x"), QUEUES[0])
        assert await durable(store, [first]) is None
        assert seen == [(PARENT, 1, 0), (QUEUES[0], 0, 0)]
        assert {topic for topic, _ in store.arrived()} == {PARENT}
        assert decode_record(first.data).properties_text.endswith(further_place(QUEUES[0], 0))
        await store.close()

    run(scenario())


@pytest.mark.parametrize(
    ("die", "lost", "case"),
    [(False, "", Case.CLEAN), (True, "", Case.MARKED), (True, "consumequeue", Case.UNKNOWN),
     (True, "gantry", Case.APACHE_DIED), (False, "consumequeue", Case.UNKNOWN)],
)  # fmt: skip
def test_every_start_finds_both_places(die: bool, lost: str, case: Case, tmp_path: Path) -> None:
    root = tmp_path / "store"
    run(fill(root, die=die))
    if lost:
        shutil.rmtree(root / lost)
    assert opened(root) is case


def test_a_lost_queue_alone_is_built_again_when_the_log_is_read(tmp_path: Path) -> None:
    root = tmp_path / "store"
    run(fill(root, die=True))
    shutil.rmtree(root / "consumequeue" / QUEUES[1])
    shutil.rmtree(root / "gantry")
    (root / "checkpoint").unlink()
    opened(root)


def test_a_deleted_queue_begins_empty_also_after_a_rebuild(tmp_path: Path) -> None:
    root = tmp_path / "store"

    async def delete() -> None:
        store = open_store(small(root))
        ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        store.delete_topic(QUEUES[0], ended.set_result)
        assert await ended is None
        assert bodies(store, QUEUES[0]) == []
        put(store, 60)
        await store.close()

    async def look() -> None:
        store = open_store(small(root))
        assert bodies(store, QUEUES[0]) == [60]
        assert bodies(store, QUEUES[1]) == list(range(1, 60, 3))
        assert store.queue_range(QUEUES[0], 0) == (0, 1)
        await store.close()

    run(fill(root))
    run(delete())
    run(look())
    shutil.rmtree(root / "consumequeue")
    run(look())


def test_a_copy_of_the_log_has_the_same_queues(tmp_path: Path) -> None:
    async def scenario() -> None:
        first, second = open_store(small(tmp_path / "first")), open_store(small(tmp_path / "second"))
        second.follow("it is a replica")
        for number in range(60):
            put(first, number)
        await first.flush_everything()
        while second.next_raw < first.written:
            second.append_raw(second.next_raw, first.read_raw(second.next_raw, 1000))
            await second.flush_everything()
        check(second)
        begins = [message.log_offset for message in first.scan(0)]
        await second.truncate(begins[30])
        check(second, 30)
        while second.next_raw < first.written:
            second.append_raw(second.next_raw, first.read_raw(second.next_raw, 5000))
        await second.flush_everything()
        check(second)
        await first.close()
        await second.close()

    run(scenario())
