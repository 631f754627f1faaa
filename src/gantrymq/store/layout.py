"""The files of a store directory, and whether this version can read them. Nothing is changed here."""

from __future__ import annotations

import os
from dataclasses import dataclass

from gantrymq.errors import StoreFormatUnknown
from gantrymq.protocol.stored_message import BLANK_MAGIC, MAGIC_V1, MAGIC_V2, read_size_and_magic
from gantrymq.runtime.disk import Disk
from gantrymq.store.config import StoreConfig
from gantrymq.store.files.segment import segment_name
from gantrymq.store.files.segmented_file import list_segments
from gantrymq.store.queues.queue_table import list_queues

ROCKSDB_FILES = ("CURRENT", "IDENTITY", "LOCK")
"""Files of a RocksDB directory."""
INDEX_HEADER_BYTES = 40


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of a store."""

    root: str
    log_directory: str = ""
    """Of the log; empty: ``commitlog`` below the root."""

    def path(self, name: str) -> str:
        return os.path.join(self.root, name)

    @property
    def log(self) -> str:
        return self.log_directory or self.path("commitlog")

    @property
    def queues(self) -> str:
        return self.path("consumequeue")

    @property
    def index(self) -> str:
        return self.path("index")

    @property
    def checkpoint(self) -> str:
        return self.path("checkpoint")

    @property
    def abort(self) -> str:
        """Exists while a broker runs, and after it died."""
        return self.path("abort")

    @property
    def lock(self) -> str:
        return self.path("lock")

    @property
    def mark(self) -> str:
        """Private: see ``store.checkpoint``."""
        return self.path("gantry/mark")

    @property
    def reserve(self) -> str:
        """Private: see ``store.reserve``."""
        return self.path("gantry/reserve")

    @property
    def deleted(self) -> str:
        """Private: see ``store.deleted``."""
        return self.path("gantry/deleted")

    @property
    def restoring(self) -> str:
        """Private: there while ``gantry restore`` fills the directory."""
        return self.path("gantry/restoring")


@dataclass(frozen=True, slots=True)
class Found:
    """The content of a store directory that this version can read."""

    log_bases: list[int]
    queues: dict[tuple[str, int], list[int]]
    index_names: list[str]


def index_file_bytes(config: StoreConfig) -> int:
    return INDEX_HEADER_BYTES + 4 * config.max_hash_slot_num + 20 * config.max_index_num


def inspect(disk: Disk, config: StoreConfig) -> Found:
    """Look at everything. Raises StoreFormatUnknown with what to do about it."""
    layout = Layout(config.root, config.log_directory)
    if disk.exists(layout.root) and not disk.is_dir(layout.root):
        raise StoreFormatUnknown(f"{layout.root} is a file; storePathRootDir must name a directory")
    if disk.exists(layout.restoring):
        raise StoreFormatUnknown(
            f"a backup was being restored into {layout.root}, and that did not end: {layout.restoring} says so. Run "
            "gantry restore again"
        )
    _refuse_rocksdb(disk, layout)
    if disk.exists(layout.log) and not disk.is_dir(layout.log):
        raise StoreFormatUnknown(f"{layout.log} is a file where the directory of the log should be; move it away")
    bases = list_segments(disk, layout.log, config.mapped_file_size_commit_log, "mappedFileSizeCommitLog")
    if bases and not disk.exists(layout.mark):
        # Behind a crash of our own the first record may be torn; in a store that was never ours it must be a record.
        _check_first_record(disk, os.path.join(layout.log, segment_name(bases[0])))
    return Found(
        bases,
        list_queues(disk, layout.queues, config.mapped_file_size_consume_queue),
        _list_index(disk, layout.index, index_file_bytes(config)),
    )


def _refuse_rocksdb(disk: Disk, layout: Layout) -> None:
    names = disk.list(layout.root)
    if "commitlog" not in names and any("rocksdb" in name.lower() for name in names):
        raise StoreFormatUnknown(
            f"{layout.root} holds RocksDB files but no commitlog/; stores of storeType=defaultRocksDB cannot be "
            "opened. Choose another storePathRootDir, or let an Apache broker with storeType=default rewrite the store"
        )
    for name in disk.list(layout.queues):
        if name in ROCKSDB_FILES or name.startswith("MANIFEST-") or name.endswith(".sst"):
            raise StoreFormatUnknown(
                f"{layout.queues} is a RocksDB directory (storeType=defaultRocksDB), which cannot be read. Move it "
                "away to have the queues built again from the log, or choose another storePathRootDir"
            )


def _check_first_record(disk: Disk, path: str) -> None:
    file = disk.open(path)
    try:
        size, magic = read_size_and_magic(file.read(8, 0))
    finally:
        file.close()
    if (size, magic) != (0, 0) and (size <= 0 or magic not in (MAGIC_V1, MAGIC_V2, BLANK_MAGIC)):
        raise StoreFormatUnknown(
            f"{path} does not begin with a RocketMQ log record (size {size}, magic {magic:#010x}); it was written by "
            "something else or is damaged. Choose another storePathRootDir, or restore the file from a copy"
        )


def _list_index(disk: Disk, directory: str, expected: int) -> list[str]:
    names = [name for name in disk.list(directory) if not name.startswith(".")]
    for name in names:
        path = os.path.join(directory, name)
        if len(name) != 17 or not name.isdigit() or disk.is_dir(path):
            raise StoreFormatUnknown(f"{path} is not an index file; move it away")
        size = disk.size(path)
        if size not in (0, expected):
            raise StoreFormatUnknown(
                f"{path} has {size} bytes, but maxHashSlotNum and maxIndexNum make {expected}; open this store with "
                "the values it was made with, or move index/ away to have it built again"
            )
    return names
