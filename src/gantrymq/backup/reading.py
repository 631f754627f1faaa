"""Reads backups from a target, and checks them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gantrymq.backup.log_walk import RecordWalk
from gantrymq.backup.manifest import MANIFESTS, LogPart, Manifest, Stored, Table, decode, is_manifest, sha256
from gantrymq.backup.target import Target
from gantrymq.errors import BackupDamaged


@dataclass(frozen=True, slots=True)
class Found:
    """The backups of a target."""

    whole: list[Stored]
    damaged: list[str]
    """What is wrong with the manifests that cannot be read."""


def backups_in(target: Target) -> Found:
    """All manifests. An empty one was begun and never written, and counts for nothing."""
    whole, damaged = [], []
    for name, size in sorted(target.sizes(MANIFESTS).items()):
        if not is_manifest(name) or not size:
            continue
        try:
            whole.append(Stored(name, decode(name, target.read(name))))
        except BackupDamaged as error:
            damaged.append(str(error))
    return Found(whole, damaged)


def read_part(target: Target, part: LogPart | Table) -> bytes:
    """The bytes of an object. Raises BackupDamaged when they are not those that were stored."""
    try:
        data = target.read(part.name)
    except FileNotFoundError:
        raise BackupDamaged(f"{part.name} is missing in {target.place}") from None
    if len(data) != part.size or sha256(data) != part.sha256:
        raise BackupDamaged(f"{part.name} in {target.place} is damaged: its bytes are not those that were stored")
    return data


def walk_of(manifest: Manifest, part: LogPart, data: bytes) -> RecordWalk:
    return RecordWalk(data, part.begin, manifest.log.file_bytes, manifest.log.damaged)


def check_part(manifest: Manifest, part: LogPart, data: bytes) -> None:
    """Whether each record in it is intact. Raises BackupDamaged."""
    check_walk(part, walk_of(manifest, part, data).to_the_end())


def check_walk(part: LogPart, walk: RecordWalk) -> None:
    """Whether a walk that has ended came through all records of a part. Raises BackupDamaged."""
    if walk.bad is not None:
        raise BackupDamaged(f"{part.name}: {walk.bad}")
    if walk.records != part.records:
        raise BackupDamaged(f"{part.name} has {walk.records} records, and the manifest says {part.records}")


def check_order(stored: Stored) -> None:
    """Whether the parts of the log follow each other without a gap. Raises BackupDamaged."""
    log = stored.manifest.log
    position = log.start
    for part in log.parts:
        if part.begin != position:
            raise BackupDamaged(f"backup {stored.id} lacks the log from offset {position} to {part.begin}")
        position = part.end
    if position != log.end:
        raise BackupDamaged(f"backup {stored.id} lacks the log from offset {position} to {log.end}")


def problems_in(target: Target, progress: Callable[[int, int], None]) -> Iterator[tuple[str, str]]:
    """Read everything; (backup, what is wrong with it) of each problem. An object of several backups is read once."""
    found = backups_in(target)
    for text in found.damaged:
        yield "", text
    known: dict[str, str] = {}
    total = sum({part.name: part.size for one in found.whole for part in one.manifest.objects}.values())
    done = 0
    for stored in found.whole:
        try:
            check_order(stored)
        except BackupDamaged as error:
            yield stored.id, str(error)
        for part in stored.manifest.objects:
            if part.name not in known:
                known[part.name] = _problem(target, stored.manifest, part)
                done += part.size
                progress(done, total)
            if known[part.name]:
                yield stored.id, known[part.name]


def _problem(target: Target, manifest: Manifest, part: LogPart | Table) -> str:
    try:
        data = read_part(target, part)
        if isinstance(part, LogPart):
            check_part(manifest, part, data)
    except BackupDamaged as error:
        return str(error)
    return ""
