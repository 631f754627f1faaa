"""What a backup is made of: its manifest, and the names of its objects in the target. Values only.

    backups/20261129T082012.123Z-<hash>.json   the manifest, written last: a backup without one does not exist
    log/<begin>-<end>-<hash>                   bytes of the commit log, of one file of it
    tables/<hash>                              a file of the store directory

A name contains (the beginning of) the SHA-256 of the object. So an object never changes, and two backups at a time that
store the same bytes do not disturb each other.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

import msgspec

from gantrymq.errors import BackupDamaged
from gantrymq.runtime.calendar import utc_of

FORMAT: Final = 1
MANIFESTS: Final = "backups/"
LOG_PARTS: Final = "log/"
TABLES: Final = "tables/"
_HASH_IN_NAME: Final = 16
_NAME: Final = re.compile(r"backups/[0-9A-Za-z.]+-[0-9a-f]{16}\.json")


class LogPart(msgspec.Struct, frozen=True):
    """The bytes ``[begin, end)`` of the log, all of them in one file."""

    begin: int
    end: int
    sha256: str
    records: int
    first_ms: int
    """Lowest and"""
    last_ms: int
    """highest store time; 0 when there is no record."""

    @property
    def name(self) -> str:
        return f"{LOG_PARTS}{self.begin:020d}-{self.end:020d}-{self.sha256[:_HASH_IN_NAME]}"

    @property
    def size(self) -> int:
        return self.end - self.begin


class Table(msgspec.Struct, frozen=True):
    """A file of the store directory that is copied as a whole."""

    path: str
    """Below the store directory."""
    size: int
    sha256: str

    @property
    def name(self) -> str:
        return f"{TABLES}{self.sha256}"


class SparseFile(msgspec.Struct, frozen=True):
    """A file of a fixed size, of which only the beginning is used. It is copied in chunks."""

    path: str
    size: int
    chunks: tuple[Table, ...]
    """They follow each other from the beginning. Behind them are zeros."""


class LogRange(msgspec.Struct, frozen=True):
    """What a backup has of the commit log."""

    file_bytes: int
    """Size of a file (``mappedFileSizeCommitLog``); 0 when there was no file."""
    start: int
    """Log offset of the first file."""
    end: int
    """Log offset behind the last whole record."""
    damaged: tuple[tuple[int, int], ...] = ()
    """Ranges, from and to, that held no intact record on the broker's disk. They are copied as they were."""
    parts: tuple[LogPart, ...] = ()
    """They follow each other from ``start`` to ``end``."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One backup."""

    format: int = FORMAT
    made_by: str
    taken_ms: int
    """When the tables with positions were read, ms since 1970."""
    log: LogRange
    tables: tuple[Table, ...]
    timer_log: tuple[SparseFile, ...] = ()
    """Our broker could build it from the log; Apache's cannot."""
    queue_file_bytes: int = 0
    """Size of a file of a consume queue; 0 when there was none."""
    queues: Table | None = None
    """Where each queue went on whose first records are no longer in the log: a list of ``QueueEnd``."""

    @property
    def records(self) -> int:
        return sum(part.records for part in self.log.parts)

    @property
    def first_ms(self) -> int:
        return min((part.first_ms for part in self.log.parts if part.records), default=0)

    @property
    def last_ms(self) -> int:
        """The highest store time of its records."""
        return max((part.last_ms for part in self.log.parts), default=0)

    @property
    def objects(self) -> tuple[LogPart | Table, ...]:
        """All that it consists of."""
        queues = () if self.queues is None else (self.queues,)
        return (*self.log.parts, *self.tables, *(chunk for file in self.timer_log for chunk in file.chunks), *queues)

    @property
    def size(self) -> int:
        """Bytes of its objects."""
        return sum(one.size for one in self.objects)


class QueueEnd(msgspec.Struct, frozen=True, array_like=True):
    """The last entry of a queue that names a record before the first one of the log."""

    topic: str
    queue_id: int
    end: int
    """The queue offset behind it."""
    log_offset: int
    size: int
    tags_code: int


class Stored(msgspec.Struct, frozen=True):
    """A manifest and its name in the target."""

    name: str
    manifest: Manifest

    @property
    def id(self) -> str:
        """What people call this backup."""
        return id_of(self.name)


def id_of(name: str) -> str:
    """``backups/X.json`` is the backup X."""
    return name.removeprefix(MANIFESTS).removesuffix(".json")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def encode(manifest: Manifest) -> tuple[str, bytes]:
    """Name and content of the object."""
    data = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
    moment = utc_of(manifest.taken_ms)
    stamp = f"{manifest.taken_ms}ms" if moment is None else f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03d}Z"
    return f"{MANIFESTS}{stamp}-{sha256(data)[:_HASH_IN_NAME]}.json", data


def is_manifest(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def decode(name: str, data: bytes) -> Manifest:
    """Raises BackupDamaged when it is not what was written under this name, or of a later format."""
    if not name.endswith(f"-{sha256(data)[:_HASH_IN_NAME]}.json"):
        raise BackupDamaged(f"{name} is damaged: its bytes are not those that were stored")
    try:
        version = msgspec.json.decode(data, type=_Version).format
        if version != FORMAT:
            raise BackupDamaged(f"{name} has format {version}, and this program reads {FORMAT}: use a newer gantry")
        return msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError as error:
        raise BackupDamaged(f"{name} is not the manifest of a backup: {error}") from error


class _Version(msgspec.Struct):
    format: int
