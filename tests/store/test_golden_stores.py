"""Store directories of real brokers open and hold exactly what the official decoder found in them."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from gantrymq.errors import StoreFormatUnknown
from gantrymq.message import properties
from gantrymq.protocol.stored_message import pack_host
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import GetStatus
from tests.golden.stores import NAMES, expected, unpack
from tests.support.places import durable, open_store, record, run, small

QUEUES = "consumequeue [index, offset, size, tagsCode]"
INDEX_ENTRIES = "entries [no, keyHash, offset, secondsSinceBegin, previous]"


def messages(name: str) -> list[dict[str, Any]]:
    return [entry for entry in expected(name)["commitlog"] if entry["kind"] == "message"]


def check_log(store: MessageStore, name: str) -> None:
    wanted = messages(name)
    found = list(store.scan(0, wanted[-1]["offset"] + 1))
    assert [message.log_offset for message in found] == [entry["offset"] for entry in wanted]
    for message, entry in zip(found, wanted, strict=True):
        body = entry["body"].encode() if "body" in entry else bytes.fromhex(entry["bodyHex"])
        decoded = dict(sorted(properties.decode(message.properties_text).items()))
        assert (message.body, decoded) == (body, entry["properties"])
        assert message.properties_text.endswith("\x02") == entry["propertiesEndWith0x02"]
        ours = (
            message.size, message.body_crc, message.topic, message.queue_id, message.queue_offset, message.flag,
            message.sys_flag, message.log_offset, message.born_timestamp, message.born_host, message.store_timestamp,
            message.store_host, message.reconsume_times, message.prepared_transaction_offset,
        )  # fmt: skip
        theirs = (
            entry["size"], entry["crc"], entry["topic"], entry["queueId"], entry["queueOffset"], entry["flag"],
            entry["sysFlag"], entry["physicalOffset"], entry["bornTimestamp"], entry["bornHost"],
            entry["storeTimestamp"], entry["storeHost"], entry["reconsumeTimes"], entry["preparedTransactionOffset"],
        )  # fmt: skip
        assert ours == theirs
        assert store.read(message.log_offset) == message


def check_queues(store: MessageStore, name: str) -> None:
    wanted = expected(name)[QUEUES]
    assert {f"{topic}/{queue_id}" for topic, queue_id in store.queues()} == {key for key in wanted if wanted[key]}
    for key, rows in wanted.items():
        topic, queue = key.rsplit("/", 1)
        least, most = store.queue_range(topic, int(queue))
        assert (least, most, store.next_offset(topic, int(queue))) == (0, len(rows), len(rows))
        found = [store.entry(topic, int(queue), number) for number in range(most)]
        assert [[number, *entry] for number, entry in enumerate(found) if entry is not None] == rows
        answer = store.get(topic, int(queue), 0, 1000, 1 << 20)
        assert answer.status is (GetStatus.FOUND if rows else GetStatus.NO_MESSAGE_IN_QUEUE)
        assert (answer.count, len(answer.data)) == (len(rows), sum(row[2] for row in rows))


def check_files(root: Path, name: str) -> None:
    """Byte by byte what independent readers saw: queues, index, checkpoint."""
    for key, rows in expected(name)[QUEUES].items():
        data = b"".join(path.read_bytes() for path in sorted((root / "consumequeue" / key).iterdir()))
        entries = [list(entry) for entry in struct.iter_unpack(">qiq", data)]
        assert entries[: len(rows)] == [row[1:] for row in rows]
        assert not any(data[20 * len(rows) :])
    check_index(root, name)


def check_index(root: Path, name: str) -> None:
    files = sorted((root / "index").iterdir())
    wanted = expected(name)["index"]
    assert [path.name for path in files] == [file["file"] for file in wanted]
    for path, file in zip(files, wanted, strict=True):
        data = path.read_bytes()
        assert len(data) == file["bytes"]
        header = [file[part] for part in ("beginTimestamp", "endTimestamp", "beginOffset", "endOffset", "usedSlots")]
        assert list(struct.unpack_from(">qqqqii", data)) == [*header, file["indexCount"]]
        slots = struct.unpack_from(">40i", data, 40)
        assert {str(number): slot for number, slot in enumerate(slots) if slot} == file["slots"]
        entries = list(struct.iter_unpack(">iqii", data[200:]))[1 : file["indexCount"]]
        assert [[number, *entry] for number, entry in enumerate(entries, 1)] == file[INDEX_ENTRIES]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost_or_doubled(tmp_path: Path, name: str) -> None:
    root = unpack(name, tmp_path)
    before = (root / "checkpoint").read_bytes()

    async def scenario() -> None:
        for _ in range(2):  # opening changes nothing, so it can be done again
            store = open_store(small(root))
            check_log(store, name)
            check_queues(store, name)
            assert store.max_log_offset == messages(name)[-1]["offset"] + messages(name)[-1]["size"]
            await store.close()
            check_files(root, name)
            assert not (root / "abort").exists()

    run(scenario())
    if not expected(name)["abortFile"]:
        assert (root / "checkpoint").read_bytes() == before


@pytest.mark.parametrize("name", NAMES)
def test_every_key_is_found(tmp_path: Path, name: str) -> None:
    root = unpack(name, tmp_path)

    async def scenario() -> None:
        store = open_store(small(root))
        wanted: dict[tuple[str, str], list[int]] = {}
        for entry in messages(name):
            held = entry["properties"]
            keys = held.get("KEYS", "").split() + ([held["UNIQ_KEY"]] if "UNIQ_KEY" in held else [])
            for key in set(keys):
                wanted.setdefault((entry["topic"], key), []).append(entry["offset"])
        for (topic, key), offsets in wanted.items():
            found = [message.log_offset for message in store.query(topic, key, 64)]
            assert found == sorted(offsets, reverse=True)[:64], (topic, key)
        assert store.query("StorePlain", "no such key", 64) == []
        await store.close()

    run(scenario())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lost", ["consumequeue", "index", "checkpoint", "both"])
def test_what_is_derived_can_be_deleted(tmp_path: Path, name: str, lost: str) -> None:
    root = unpack(name, tmp_path)
    for part in ("consumequeue", "index") if lost == "both" else (lost,):
        if (root / part).is_dir():
            shutil.rmtree(root / part)
        else:
            (root / part).unlink()

    async def scenario() -> None:
        store = open_store(small(root))
        check_log(store, name)
        check_queues(store, name)
        entry = next(entry for entry in messages(name) if "KEYS" in entry["properties"])
        key = entry["properties"]["KEYS"].split()[0]
        assert entry["offset"] in [message.log_offset for message in store.query(entry["topic"], key, 64)]
        await store.close()

    run(scenario())


@pytest.mark.parametrize("name", NAMES)
def test_the_store_goes_on_where_the_broker_stopped(tmp_path: Path, name: str) -> None:
    root = unpack(name, tmp_path)

    async def scenario() -> None:
        store = open_store(small(root))
        end = store.max_log_offset
        next_offset = store.next_offset("StorePlain", 0)
        placed = store.append([record("StorePlain"), record("StorePlain", 3)])
        assert (placed[0].log_offset, placed[0].queue_offset) == (end, next_offset)
        assert await durable(store, placed) is None
        await store.close()
        again = open_store(small(root))
        check_log(again, name)
        assert [message.topic for message in again.scan(end)] == ["StorePlain"] * 2
        assert again.query("StorePlain", "order-1", 10)[0].log_offset == placed[1].log_offset
        await again.close()

    run(scenario())


def test_a_killed_broker_left_the_next_file_already_there(tmp_path: Path) -> None:
    root = unpack("5.5.0-killed", tmp_path)
    following = root / "commitlog/00000000000000065536"
    assert not any(following.read_bytes())
    run(open_and_close(root))
    assert following.exists()


async def open_and_close(root: Path) -> None:
    await open_store(small(root)).close()


@pytest.mark.parametrize("name", NAMES)
def test_other_sizes_than_it_was_made_with_are_named(tmp_path: Path, name: str) -> None:
    root = unpack(name, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    for setting, key in (
        ("mapped_file_size_commit_log", "mappedFileSizeCommitLog=16384"),
        ("mapped_file_size_consume_queue", "mappedFileSizeConsumeQueue=400"),
        ("max_index_num", "maxIndexNum"),
    ):
        with pytest.raises(StoreFormatUnknown, match=key):
            open_store(small(root, **{setting: 32780}))
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_hosts_are_packed_as_the_brokers_do() -> None:
    assert pack_host("127.0.0.1:31911").hex() == "7f00000100007ca7"
