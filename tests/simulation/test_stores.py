"""Queues that do not fit their log are found, whichever way they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gantrymq.simulation.flipping import FLIPPED
from gantrymq.simulation.stores import places_of, queue_problems, store_problems
from gantrymq.store.message_store import MessageStore
from gantrymq.store.queues.consume_queue import ENTRY
from tests.support.places import durable, open_store, record, run, small

MESSAGES = 3


def _with_store(root: Path, look: Callable[[MessageStore], None], entry: int | None = None, data: bytes = b"") -> None:
    """Look at a store with three messages in one queue. ``data``: this entry, as it is behind a closed store's back."""

    async def scenario() -> None:
        store = open_store(small(root))
        await durable(store, store.append([record(body=b"%d" % number) for number in range(MESSAGES)]))
        await store.close()
        if entry is not None:
            (file,) = (root / "consumequeue" / "Orders" / "0").iterdir()
            with file.open("r+b") as queue:
                queue.seek(entry * len(data))
                queue.write(data)
        store = open_store(small(root))
        try:
            look(store)
        finally:
            await store.close()

    run(scenario())


def _problems(store: MessageStore) -> list[str]:
    return list(queue_problems(store, places_of(store)))


def test_a_whole_store_has_no_problems(tmp_path: Path) -> None:
    def look(store: MessageStore) -> None:
        assert places_of(store).keys() == {("Orders", 0, offset) for offset in range(MESSAGES)}
        assert _problems(store) == []

    _with_store(tmp_path, look)


def test_an_entry_that_leads_elsewhere(tmp_path: Path) -> None:
    def look(store: MessageStore) -> None:
        expected = places_of(store)[("Orders", 0, 1)]
        assert f"entry 1 of Orders:0 names log offset 7, the record lies at {expected}" in _problems(store)

    _with_store(tmp_path, look, 1, ENTRY.pack(7, 100, 0))


def test_an_entry_without_a_record(tmp_path: Path) -> None:
    def look(store: MessageStore) -> None:
        places = places_of(store)
        lies = places.pop(("Orders", 0, 2))
        assert list(queue_problems(store, places)) == [
            f"entry 2 of Orders:0 names log offset {lies}, the record lies at -1"
        ]

    _with_store(tmp_path, look)


def test_records_that_no_queue_leads_to(tmp_path: Path) -> None:
    def look(store: MessageStore) -> None:
        places = {**places_of(store), ("Orders", 0, MESSAGES): 5000, ("Paid", 1, 0): 6000}
        assert sorted(queue_problems(store, places)) == [
            "Orders:0 does not lead to its record 3",
            "Paid:1 does not lead to its record 0",
        ]

    _with_store(tmp_path, look)


def test_brokers_that_run_are_looked_at_unless_a_bit_was_flipped(tmp_path: Path) -> None:
    def look(store: MessageStore) -> None:
        down = SimpleNamespace(name="b", broker=None)
        cluster: Any = SimpleNamespace(
            brokers=[SimpleNamespace(name="a", broker=SimpleNamespace(store=store)), down], injected=Counter()
        )
        found = store_problems(cluster)
        assert found and all(problem.startswith("a: ") for problem in found)
        cluster.injected[f"{FLIPPED} in the log"] += 1
        assert store_problems(cluster) == []

    _with_store(tmp_path, look, 0, ENTRY.pack(7, 100, 0))
