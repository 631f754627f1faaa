"""Deletes old backups from a target, and the objects that no other one needs."""

from __future__ import annotations

from dataclasses import dataclass

from gantrymq.backup.manifest import LOG_PARTS, MANIFESTS, TABLES, Stored
from gantrymq.backup.reading import backups_in
from gantrymq.backup.rules import too_old, without_use
from gantrymq.backup.target import Target
from gantrymq.errors import BackupRefused


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was deleted, or would be."""

    backups: list[Stored]
    objects: int
    size: int
    """Bytes of these objects."""


def prune(target: Target, before_ms: int, *, dry_run: bool) -> Pruned:
    """Delete the backups that were taken before this time, ms since 1970; the newest one stays. Interrupted, it leaves
    objects that the next call deletes.

    Raises BackupRefused when there is no backup, or when a manifest is damaged, because nobody knows what it needs;
    StoreError.
    """
    if not target.sizes(MANIFESTS):
        raise BackupRefused(f"there is no backup in {target.place}")
    with target.held():
        found = backups_in(target)
        if found.damaged:
            raise BackupRefused(f"{found.damaged[0]}; nothing is deleted. Remove that file first if it is not needed")
        old = too_old(found.whole, before_ms)
        kept = [one for one in found.whole if one not in old]
        sizes = {**target.sizes(LOG_PARTS), **target.sizes(TABLES)} if kept else {}
        useless = without_use(kept, sizes)
        if not dry_run:
            # First what says that a backup exists, then what it consists of.
            for name in [*(one.name for one in old), *useless]:
                target.remove(name)
        return Pruned(old, len(useless), sum(sizes[name] for name in useless))
