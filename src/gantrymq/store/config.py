"""The settings of the store, with RocketMQ's names (MessageStoreConfig). Sizes are in bytes."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import cached_property

from gantrymq.errors import ConfigError

_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


class FlushDiskType(enum.Enum):
    """When an append counts as stored: after the sync of the disk, or after the write to the file."""

    SYNC_FLUSH = "SYNC_FLUSH"
    ASYNC_FLUSH = "ASYNC_FLUSH"


@dataclass(frozen=True)
class StoreConfig:
    """Raises ConfigError when a value cannot work; the message names the key."""

    root: str
    """Absolute path of the store directory (``storePathRootDir``)."""
    log_directory: str = ""
    """Absolute path of the log's directory (``storePathCommitLog``); empty: ``commitlog`` below the root."""
    mapped_file_size_commit_log: int = 1 << 30
    """Size of a log file; a store can only be opened with the size it was made with."""
    mapped_file_size_consume_queue: int = 6_000_000
    """Size of a consume-queue file: 300,000 entries of 20 bytes."""
    max_index_num: int = 20_000_000
    """Entries of an index file."""
    max_hash_slot_num: int = 5_000_000
    """Hash slots of an index file."""
    message_index_enable: bool = True
    """Whether messages can be found by key."""
    flush_disk_type: FlushDiskType = FlushDiskType.SYNC_FLUSH
    """SYNC_FLUSH unless asked otherwise, because an acknowledged message should survive a power cut."""
    sync_flush_timeout: int = 0
    """Milliseconds that a sender waits for the disk with SYNC_FLUSH; 0: as long as it takes."""
    flush_interval_commit_log: int = 500
    """Milliseconds between two syncs with ASYNC_FLUSH."""
    disk_space_warning_ratio: float = 0.90
    """Share of the file system in use above which writes are refused (``diskSpaceWarningLevelRatio``)."""
    disk_space_reserve: int = 0
    """Bytes that are kept for what must be written on a full disk (``store.reserve``); 0: nothing is kept."""
    message_delay_level: str = DELAY_LEVELS
    """Delay of each level; needed to rebuild the entries of SCHEDULE_TOPIC_XXXX, which hold the delivery time."""

    def __post_init__(self) -> None:
        if not self.root.startswith("/"):
            raise ConfigError(f"storePathRootDir must be an absolute path, not {self.root!r}")
        if self.log_directory and not self.log_directory.startswith("/"):
            raise ConfigError(f"storePathCommitLog must be one absolute path, not {self.log_directory!r}")
        for key, value, least in (
            ("mappedFileSizeCommitLog", self.mapped_file_size_commit_log, 1024),
            ("mappedFileSizeConsumeQueue", self.mapped_file_size_consume_queue, 20),
            ("maxIndexNum", self.max_index_num, 2),
            ("maxHashSlotNum", self.max_hash_slot_num, 1),
        ):
            if value < least:
                raise ConfigError(f"{key} is {value}; it must be at least {least}")
        if self.mapped_file_size_consume_queue % 20:
            raise ConfigError("mappedFileSizeConsumeQueue must be a multiple of 20, the size of an entry")
        if self.disk_space_reserve < 0:
            raise ConfigError(f"diskSpaceReserve is {self.disk_space_reserve}; write bytes, or 0 for no reserve")
        if not 0 < self.disk_space_warning_ratio <= 1:
            raise ConfigError("diskSpaceWarningLevelRatio must be in (0, 1]")
        if len(self.delays_ms) < 1:
            raise ConfigError("messageDelayLevel names no level")

    @property
    def flush_limit_ms(self) -> int | None:
        """Milliseconds that a sender waits for the disk; None: as long as it takes."""
        return self.sync_flush_timeout or None if self.flush_disk_type is FlushDiskType.SYNC_FLUSH else None

    @cached_property
    def delays_ms(self) -> tuple[int, ...]:
        """Milliseconds of level 1, 2, ..."""
        return tuple(_delay_ms(word) for word in self.message_delay_level.split())


def _delay_ms(word: str) -> int:
    match = re.fullmatch(r"(\d+)([smhd])", word)
    if match is None:
        raise ConfigError(f"messageDelayLevel has {word!r}; write numbers with s, m, h or d, like 30s")
    return int(match[1]) * _UNIT_MS[match[2]]
