"""What cannot be read is refused with advice, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gantrymq.errors import ConfigError, StoreFormatUnknown
from gantrymq.store.config import StoreConfig
from tests.support.places import durable, open_store, record, run, small


def log_file(root: Path, name: str = "0" * 20, data: bytes = bytes(16384)) -> None:
    (root / "commitlog").mkdir(exist_ok=True)
    (root / "commitlog" / name).write_bytes(data)


def queue_file(root: Path, name: str = "0" * 20, data: bytes = bytes(400)) -> None:
    (root / "consumequeue/T/0").mkdir(parents=True, exist_ok=True)
    (root / "consumequeue/T/0" / name).write_bytes(data)


def made_of(*names: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        for name in names:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"something")

    return make


STRANGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "size": (lambda root: log_file(root, data=bytes(4096)), "mappedFileSizeCommitLog=4096"),
    "empty but not last": (
        lambda root: (log_file(root, data=b""), log_file(root, f"{16384:020d}"))[0],
        "has 0 bytes",
    ),
    "name": (lambda root: log_file(root, "notes.txt"), "no file of a RocketMQ store"),
    "gap": (lambda root: (log_file(root), log_file(root, f"{32768:020d}"))[0], "lacks the file 00000000000000016384"),
    "misplaced": (lambda root: log_file(root, f"{100:020d}"), "multiple of mappedFileSizeCommitLog"),
    "garbage": (lambda root: log_file(root, data=b"PK\3\4" * 4096), "does not begin with a RocketMQ log record"),
    "queue size": (lambda root: queue_file(root, data=bytes(20)), "mappedFileSizeConsumeQueue=20"),
    "index name": (made_of("index/notes"), "not an index file"),
    "index size": (made_of("index/20261121004930203"), "maxHashSlotNum"),
    "log is a file": (made_of("commitlog"), "directory of the log"),
    "rocksdb only": (made_of("rocksdbstore/CURRENT", "rocksdbstore/MANIFEST-000001"), "defaultRocksDB"),
    "rocksdb queues": (made_of("consumequeue/CURRENT", "consumequeue/000001.sst"), "RocksDB"),
    "file among topics": (made_of("consumequeue/T"), "directories of topics"),
}


@pytest.mark.parametrize("what", STRANGE)
def test_a_strange_directory_is_refused_and_left_alone(tmp_path: Path, what: str) -> None:
    make, advice = STRANGE[what]
    make(tmp_path)
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    with pytest.raises(StoreFormatUnknown, match=advice):
        open_store(small(tmp_path))
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before


def test_a_root_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("x")
    with pytest.raises(StoreFormatUnknown, match="is a file"):
        open_store(small(tmp_path / "store"))


def test_other_things_beside_the_store_do_no_harm(tmp_path: Path) -> None:
    made_of("lost+found/x", "config/topics.json", "commitlog/.hidden", "rocksdbstore/CURRENT", "abort.bak")(tmp_path)

    async def scenario() -> None:
        store = open_store(small(tmp_path))
        assert await durable(store, store.append([record()])) is None
        assert store.path("config/topics.json") == str(tmp_path / "config/topics.json")
        await store.close()

    run(scenario())
    assert (tmp_path / "abort.bak").exists()


@pytest.mark.parametrize("mounted", [".", "commitlog", "consumequeue", "consumequeue/orders/0", "index", "config"])
def test_a_directory_that_is_mounted_has_entries_of_its_file_system(tmp_path: Path, mounted: str) -> None:
    """ext4 makes lost+found, which belongs to root: nobody can move it away."""

    async def life() -> None:
        store = open_store(small(tmp_path))
        await durable(store, store.append([record()]))
        await store.close()

    run(life())
    foreign = tmp_path / mounted / "lost+found"
    foreign.mkdir(parents=True)
    foreign.chmod(0)
    run(life())
    foreign.chmod(0o700)
    assert foreign.is_dir()


def test_an_empty_last_file_is_what_a_crash_leaves_and_goes(tmp_path: Path) -> None:
    async def fill() -> None:
        store = open_store(small(tmp_path))
        await durable(store, store.append([record()]))
        await store.close()

    run(fill())
    for directory, name in (("commitlog", f"{16384:020d}"), ("consumequeue/Orders/0", f"{400:020d}")):
        (tmp_path / directory / name).touch()
    (tmp_path / "index/20991231235959999").touch()

    async def scenario() -> None:
        store = open_store(small(tmp_path))
        assert len(list(store.scan(0))) == 1 and store.queue_range("Orders", 0) == (0, 1)
        assert len(store.query("Orders", "order-1", 5)) == 1
        await store.close()

    run(scenario())
    assert [path.name for path in (tmp_path / "commitlog").iterdir()] == ["0" * 20]


@pytest.mark.parametrize(
    ("setting", "value", "key"),
    [
        ("root", "relative", "storePathRootDir"),
        ("mapped_file_size_commit_log", 10, "mappedFileSizeCommitLog"),
        ("mapped_file_size_consume_queue", 30, "multiple of 20"),
        ("max_index_num", 1, "maxIndexNum"),
        ("max_hash_slot_num", 0, "maxHashSlotNum"),
        ("disk_space_warning_ratio", 1.5, "diskSpaceWarningLevelRatio"),
        ("message_delay_level", "1s 5x", "5x"),
        ("message_delay_level", "", "messageDelayLevel"),
    ],
)
def test_settings_that_cannot_work_are_named(setting: str, value: object, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        StoreConfig(**{"root": "/store", setting: value})  # type: ignore[arg-type]


def test_delay_levels_in_milliseconds() -> None:
    assert StoreConfig("/store").delays_ms[:3] == (1000, 5000, 10_000)
    assert StoreConfig("/store", message_delay_level="2m 1h 1d").delays_ms == (120_000, 3_600_000, 86_400_000)
