"""Takes a backup of a store directory, while its broker runs or when it does not.

1. Tables with positions are read. 2. The end of the log is fixed. 3. Topics, groups and users are read. 4. What the
target does not have of the log up to that end is copied. 5. The manifest is written. Until then the backup does not
exist, and nothing that was there before has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from gantrymq.backup.live_store import LiveLog, LogMoved, check_store, queue_ends, read_tables, timer_log
from gantrymq.backup.log_walk import Range
from gantrymq.backup.manifest import (
    LOG_PARTS,
    TABLES,
    LogPart,
    LogRange,
    Manifest,
    SparseFile,
    Stored,
    Table,
    encode,
    sha256,
)
from gantrymq.backup.progress import Progress, silent
from gantrymq.backup.reading import backups_in
from gantrymq.backup.rules import check_lineage, in_order, kept_parts
from gantrymq.backup.tables import is_late
from gantrymq.backup.target import Target
from gantrymq.errors import BackupRefused
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk
from gantrymq.store.layout import Layout

ATTEMPTS: Final = 5
"""The broker may delete old files of the log meanwhile; then it is begun again, with what was copied already."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A backup that was made."""

    stored: Stored
    sent_bytes: int
    """How much of it the target did not have."""


@dataclass(slots=True)
class Taking:
    """``take`` once."""

    disk: Disk
    clock: Clock
    layout: Layout
    target: Target
    made_by: str
    progress: Progress = silent
    sent: int = 0

    def take(self) -> Taken:
        """Raises BackupRefused, StoreFormatUnknown, or StoreError of the store or of the target."""
        check_store(self.disk, self.layout)
        with self.target.held():
            before = in_order(backups_in(self.target).whole)
            for _ in range(ATTEMPTS):
                try:
                    manifest = self._manifest(before[-1].manifest.log if before else None)
                except LogMoved:
                    continue
                if self._is_there(manifest):
                    break
            else:
                raise BackupRefused(
                    f"files of {self.layout.log}, or objects in {self.target.place}, are deleted faster than they are "
                    "copied; try again later"
                )
            name, data = encode(manifest)
            self.target.write(name, data)
        return Taken(Stored(name, manifest), self.sent)

    def _manifest(self, before: LogRange | None) -> Manifest:
        taken_ms = self.clock.wall_ms()
        tables = {path: data for path, data in read_tables(self.disk, self.layout).items() if not is_late(path)}
        timers = tuple(self._timer_log())
        log = LiveLog(self.disk, self.layout)
        try:
            end = log.end()
            late = read_tables(self.disk, self.layout)
            tables |= {path: data for path, data in late.items() if is_late(path)}
            queue_bytes, ends = queue_ends(self.disk, self.layout, log.start)
            copied = self._log(log, end, before)
        finally:
            log.close()
        sizes = self.target.sizes(TABLES)
        return Manifest(
            made_by=self.made_by,
            taken_ms=taken_ms,
            log=copied,
            tables=tuple(self._table(path, data, sizes) for path, data in sorted(tables.items())),
            timer_log=timers,
            queue_file_bytes=queue_bytes,
            queues=self._table("consumequeue", msgspec.json.encode(ends), sizes) if ends else None,
        )

    def _is_there(self, manifest: Manifest) -> bool:
        """Whether nobody has deleted an object meanwhile, as ``gantry backup prune`` may in a bucket."""
        sizes = {**self.target.sizes(LOG_PARTS), **self.target.sizes(TABLES)}
        return all(sizes.get(one.name) == one.size for one in manifest.objects)

    def _log(self, log: LiveLog, end: int, before: LogRange | None) -> LogRange:
        sizes = self.target.sizes(LOG_PARTS)
        if before is not None:
            self._check_same(log, end, before)
        kept = kept_parts(before, log.file_bytes, log.start, sizes)
        begin = kept[-1].end if kept else log.start
        known = () if before is None else before.damaged
        damaged: list[Range] = [(gap, min(to, begin)) for gap, to in known if log.start <= gap < begin]
        parts: list[LogPart] = list(kept)
        total = end - begin
        for piece in log.pieces(begin, end):
            parts.append(piece.part)
            damaged += piece.damaged
            if sizes.get(piece.part.name) != piece.part.size:
                self._send(piece.part.name, piece.data)
            self.progress(piece.part.end - begin, total)
        return LogRange(log.file_bytes, log.start, parts[-1].end if parts else log.start, tuple(damaged), tuple(parts))

    def _timer_log(self) -> Iterator[SparseFile]:
        """Behind ``timercheck``, which says how much of it counts, and before the end of the log."""
        sizes = self.target.sizes(TABLES)
        for path, size, chunks in timer_log(self.disk, self.layout):
            yield SparseFile(path, size, tuple(self._table(path, data, sizes) for data in chunks))

    def _check_same(self, log: LiveLog, end: int, before: LogRange) -> None:
        """Whether the log is the one of the last backup: its last part must be in it, byte for byte."""
        check_lineage(before, log.file_bytes, end, self.layout.root)
        last = before.parts[-1] if before.parts else None
        if last is not None and last.begin >= log.start and sha256(log.read(last.begin, last.end)) != last.sha256:
            raise BackupRefused(
                f"the log of {self.layout.root} has other bytes from offset {last.begin} to {last.end} than the one in "
                "the target: it is not the same store, or an older state of it was restored. Give it a new target"
            )

    def _table(self, path: str, data: bytes, sizes: dict[str, int]) -> Table:
        table = Table(path, len(data), sha256(data))
        if sizes.get(table.name) != len(data):
            self._send(table.name, data)
        return table

    def _send(self, name: str, data: bytes) -> None:
        self.target.write(name, data)
        self.sent += len(data)
