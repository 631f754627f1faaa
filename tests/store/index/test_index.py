from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.message import properties
from gantrymq.message.tags import java_hash
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.index.index import key_hash, keys_of
from gantrymq.store.index.index_file import IndexFile
from tests.support.places import durable, open_store, record, run, small
from tests.support.sim_clock import SimClock


@given(st.sampled_from(["T", "Bestellung", "商品"]), st.text(min_size=1, max_size=40))
def test_the_hash_of_a_key_is_javas_without_its_sign(topic: str, key: str) -> None:
    hashed = abs(java_hash(f"{topic}#{key}"))
    assert key_hash(topic, key) == (hashed if hashed < 2**31 else 0)


@given(
    st.lists(st.sampled_from(["KEYS\x01a b", "KEYS\x01", "KEYS\x01 ", "MY_KEYS\x01c", "KEYS\x01d", "UNIQ_KEY\x01u"]))
)
def test_keys_are_what_the_properties_say(items: list[str]) -> None:
    for text in ("\x02".join(items), "".join(f"{item}\x02" for item in items)):
        decoded = properties.decode(text)
        words = [word for word in decoded.get("KEYS", "").split(" ") if word]
        assert keys_of(text) == ([decoded["UNIQ_KEY"]] if "UNIQ_KEY" in decoded else []) + words


def test_java_hashes_and_the_one_without_a_positive_counterpart() -> None:
    assert key_hash("a", "b") == ord("a") * 31 * 31 + ord("#") * 31 + ord("b")
    assert keys_of("KEYS\x01a  b\x02UNIQ_KEY\x01u\x02TAGS\x01t\x02") == ["u", "a", "b"]
    assert keys_of("MY_KEYS\x01a\x02NOT_UNIQ_KEY\x01u\x02") == []


def test_queries_over_many_files_newest_first_within_times(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = SimClock()
        store = open_store(small(tmp_path), clock=clock)
        start = clock.wall_ms()
        placed = []
        for number in range(300):
            await clock.advance(1)
            text = f"KEYS\x01all k{number}\x02UNIQ_KEY\x01U{number:031d}\x02"
            placed += store.append([record(properties=text)])
        assert await durable(store, placed) is None
        newest = [place.log_offset for place in placed][::-1]
        assert [m.log_offset for m in store.query("Orders", "all", 10)] == newest[:10]
        assert [m.log_offset for m in store.query("Orders", "all", 1000)] == newest[:64]
        assert [m.log_offset for m in store.query("Orders", f"U{7:031d}", 5)] == [placed[7].log_offset]
        assert store.query("Other", "all", 5) == [] and store.query("Orders", "k300", 5) == []
        at = placed[100].store_timestamp
        assert at == start + 101_000
        found = [m.log_offset for m in store.query("Orders", "all", 64, at, at + 2000)]
        assert found == [placed[n].log_offset for n in (102, 101, 100)]
        assert store.query("Orders", "all", 64, at + 1, at + 999) == []
        await store.close()
        assert len(list((tmp_path / "index").iterdir())) == 8  # 900 keys, 119 in a file

    run(scenario())


def test_without_an_index_nothing_is_found_by_key(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(small(tmp_path, message_index_enable=False))
        await durable(store, store.append([record()]))
        assert store.query("Orders", "order-1", 5) == []
        await store.close()
        assert not (tmp_path / "index").exists()
        again = open_store(small(tmp_path))  # switched on later, it is built from the log
        assert len(again.query("Orders", "order-1", 5)) == 1
        await again.close()

    run(scenario())


@pytest.mark.parametrize("left", [0, 40, 200, 340, 345, 360, 2190, 2200])
def test_checking_a_file_that_somebody_cut_off_comes_to_an_end(left: int) -> None:
    """Its header says how many entries there are, and a step that reads none of them must not be repeated."""
    disk = SimDisk()
    disk.make_dirs("/index")
    file = IndexFile(disk, "/index/20260101000000000", 40, 120)
    file.create()
    file.put_all([(number * 7, number * 100, number) for number in range(1, 100)])
    assert file.flush() and list(file.verify(1 << 20)) == [True]
    disk.open(file.path).truncate(left)
    verdicts = list(islice(file.verify(1 << 20), 10))
    assert verdicts == [left == 2200]
    assert file.header.count == max(1, (left - 200) // 20)


@pytest.mark.parametrize(("count", "end_offset"), [(0, 1000), (1, 1000), (4, 1000)])
def test_a_header_that_a_power_cut_tore_says_nothing_more_than_the_entries(count: int, end_offset: int) -> None:
    """Of ten entries the header counts only some, and names the place of the last one."""
    disk = SimDisk()
    file = IndexFile(disk, "/index/20260101000000000", 10, 20)
    file.create()
    for number in range(1, 11):
        file.put(number, number * 100, 1_700_000_000_000)
    file.flush()
    data, _ = disk.bytes_of(file.path)
    data[36:40] = count.to_bytes(4, "big")
    assert int.from_bytes(data[24:32], "big") == end_offset
    again = IndexFile(disk, file.path, 10, 20)
    again.load()
    list(again.verify(10_000))
    assert again.header.end_offset == (again.header.count - 1) * 100
    assert again.header.count == max(1, count)
