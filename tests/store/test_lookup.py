from __future__ import annotations

from pathlib import Path

from tests.support.places import durable, open_store, record, run, small


def test_a_forged_record_inside_a_body_is_not_one(tmp_path: Path) -> None:
    """Hole 21: real brokers take the bytes at any offset for a record."""

    async def scenario() -> None:
        store = open_store(small(tmp_path))
        first = store.append([record()])
        await durable(store, first)
        inner = store.get("Orders", 0, 0, 1, 1000).data
        forged_at = first[0].end + 88
        forged = inner[:28] + forged_at.to_bytes(8, "big") + inner[36:]
        outer = store.append([record(body=forged)])
        await durable(store, outer)
        assert store.read(forged_at) is None
        message = store.read(outer[0].log_offset)
        assert message is not None and message.body == forged
        assert store.read(first[0].log_offset + 1) is None and store.read(-1) is None and store.read(1 << 40) is None
        await store.close()

    run(scenario())


def test_records_are_walked_in_the_order_of_the_log_and_found_by_their_keys(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(small(tmp_path))
        texts = [f"UNIQ_KEY\x01id{n}\x02KEYS\x01order{n % 2} all\x02" for n in range(6)]
        placed = [store.append([record(queue_id=n % 3, properties=text)])[0] for n, text in enumerate(texts)]
        assert store.query("Orders", "all", 10) == []
        assert await durable(store, placed) is None
        assert [found.log_offset for found in store.scan(placed[2].log_offset, placed[4].log_offset)] == [
            place.log_offset for place in placed[2:4]
        ]
        newest_first = [place.log_offset for place in reversed(placed)]
        assert [found.log_offset for found in store.query("Orders", "all", 10)] == newest_first
        assert [found.log_offset for found in store.query("Orders", "order1", 2)] == newest_first[0:3:2]
        assert [found.log_offset for found in store.query("Orders", "id3", 10)] == [placed[3].log_offset]
        assert store.query("Orders", "id", 10) == store.query("Others", "all", 10) == []
        assert store.entry("Orders", 0, 1) is not None and store.entry("Orders", 0, 2) is None
        await store.close()

    run(scenario())
