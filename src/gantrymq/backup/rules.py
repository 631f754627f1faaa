"""Decisions about backups: what is new since the last one, and which of them a restore needs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gantrymq.backup.manifest import LogPart, LogRange, Stored
from gantrymq.errors import BackupRefused
from gantrymq.runtime.calendar import iso


def kept_parts(before: LogRange | None, file_bytes: int, start: int, sizes: Mapping[str, int]) -> tuple[LogPart, ...]:
    """The parts of the last backup that the next one has in common with it: they follow each other from ``start``, the
    first log offset of the broker now. ``sizes``: of the objects that are in the target; a part that is not is left
    out, with all behind it, and stored again."""
    if before is None or before.file_bytes != file_bytes:
        return ()
    kept: list[LogPart] = []
    position = start
    for part in before.parts:
        if part.end <= start:
            continue
        if part.begin != position or sizes.get(part.name) != part.size:
            break
        kept.append(part)
        position = part.end
    return tuple(kept)


def check_lineage(before: LogRange, file_bytes: int, end: int, place: str) -> None:
    """Whether the log of the broker can be the one of the last backup, as far as numbers say. ``place``: the store
    directory. Raises BackupRefused."""
    if before.file_bytes and file_bytes and before.file_bytes != file_bytes:
        raise BackupRefused(
            f"the log files of {place} have {file_bytes} bytes, and those in the target {before.file_bytes}: it is not "
            "the same store. Give this store a target of its own"
        )
    if end < before.end:
        raise BackupRefused(
            f"the log of {place} ends at offset {end}, and the one in the target at {before.end}: it is not the same "
            "store, or an older state of it was restored. Give it a new target"
        )


def too_old(backups: Sequence[Stored], before_ms: int) -> list[Stored]:
    """The backups that were taken before a time, but for the newest one."""
    return [one for one in in_order(backups)[:-1] if one.manifest.taken_ms < before_ms]


def without_use(backups: Sequence[Stored], names: Iterable[str]) -> list[str]:
    """Those of the objects that none of these backups consists of."""
    used = {part.name for one in backups for part in one.manifest.objects}
    return [name for name in names if name not in used]


@dataclass(frozen=True, slots=True)
class Choice:
    """What a restore takes."""

    log: Stored
    """The log is that of this backup,"""
    tables: Stored
    """the positions are those of this one, which is the same or an earlier one,"""
    at_ms: int | None
    """and the log ends before the first record that was stored after this time; None: it is not cut."""

    @property
    def is_cut(self) -> bool:
        """Whether tables and log are of different moments."""
        return self.log is not self.tables or self.at_ms is not None


def in_order(backups: Sequence[Stored]) -> list[Stored]:
    """The oldest first. The log decides, because a clock may be set back."""
    return sorted(backups, key=lambda one: (one.manifest.log.end, one.manifest.taken_ms))


def choose(backups: Sequence[Stored], at_ms: int | None) -> Choice:
    """What to restore. ``at_ms``: the point in time, ms since 1970; None: the newest backup as it is.

    Positions of a later time could lie behind the log, so that consumers would miss messages. Those of an earlier time
    only give messages again. Raises BackupRefused.
    """
    ordered = in_order(backups)
    if not ordered:
        raise BackupRefused("there is no backup in the target")
    newest = ordered[-1]
    if at_ms is None:
        return Choice(newest, newest, None)
    if at_ms > max(newest.manifest.taken_ms, newest.manifest.last_ms):
        raise BackupRefused(
            f"the newest backup is of {iso(newest.manifest.taken_ms)}: nothing is known of {iso(at_ms)}. Leave out "
            "--at to have the newest state"
        )
    before = [one for one in ordered if one.manifest.taken_ms <= at_ms and one.manifest.last_ms <= at_ms]
    if not before:
        first = ordered[0].manifest
        raise BackupRefused(
            f"the first backup is of {iso(max(first.taken_ms, first.last_ms))}: there are no positions of consumers of "
            f"{iso(at_ms)} or before it"
        )
    for one in ordered:
        if one.manifest.last_ms > at_ms:
            if one.manifest.log.start > before[-1].manifest.log.end:
                raise BackupRefused(
                    f"records of {iso(at_ms)} are in no backup: the broker had deleted them before {one.id} was taken. "
                    f"The state of {before[-1].id} can be restored: --at {iso(before[-1].manifest.taken_ms)}"
                )
            return Choice(one, before[-1], at_ms)
    return Choice(newest, before[-1], None)
