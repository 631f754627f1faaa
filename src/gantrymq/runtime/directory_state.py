"""A directory as the operating system sees it: who owns it, who may write, on which file system it is. Only reads."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gantrymq.runtime.guesses.mounts import OF_THE_FILE_SYSTEM
from gantrymq.runtime.guesses.person import user_name_of

MOUNTS: Final = "/proc/self/mountinfo"
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
ENTRIES_MAX: Final = 10_000
"""Entries of one directory whose owners are looked at."""


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """What was seen. Everything but ``exists`` means nothing where there is no directory."""

    exists: bool = False
    is_directory: bool = False
    writable: bool = False
    """By this process."""
    read_only: bool = False
    """The file system is mounted so."""
    file_system: str = ""
    """For example ``ext4``; empty: unknown."""
    mode: int = 0
    owners: tuple[str, ...] = ()
    """Of the directory and of what is directly in it."""
    used: float = 0.0
    free_bytes: int = 0
    free_files: int | None = None


def directory_state(path: str) -> DirectoryState:
    """Raises OSError where the operating system does not let us look."""
    try:
        seen = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return DirectoryState()
    if not stat.S_ISDIR(seen.st_mode):
        return DirectoryState(exists=True)
    volume = os.statvfs(path)
    reachable = volume.f_blocks - volume.f_bfree + volume.f_bavail
    return DirectoryState(
        exists=True,
        is_directory=True,
        writable=os.access(path, os.W_OK | os.X_OK),
        read_only=bool(volume.f_flag & os.ST_RDONLY),
        file_system=file_system_of(path),
        mode=stat.S_IMODE(seen.st_mode),
        owners=_owners(path, seen.st_uid),
        used=(volume.f_blocks - volume.f_bfree) / reachable if reachable > 0 else 0.0,
        free_bytes=volume.f_bavail * volume.f_frsize,
        free_files=volume.f_favail if volume.f_files else None,
    )


def readable_by_others(path: str) -> bool:
    """Whether users other than the owner may read a file; False when there is none."""
    try:
        return bool(stat.S_IMODE(os.stat(path).st_mode) & (stat.S_IRGRP | stat.S_IROTH))
    except OSError:
        return False


def _owners(path: str, own: int) -> tuple[str, ...]:
    numbers = {own}
    with os.scandir(path) as entries:
        for _, entry in zip(range(ENTRIES_MAX), entries, strict=False):
            if entry.name not in OF_THE_FILE_SYSTEM:
                numbers.add(entry.stat(follow_symlinks=False).st_uid)
    return tuple(sorted(user_name_of(number) for number in numbers))


def file_system_of(path: str) -> str:
    """The kind of file system that a path is on; empty where the system does not say (only Linux does)."""
    try:
        lines = Path(MOUNTS).read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return kind_in(lines, os.path.realpath(path))


def kind_in(mounts: list[str], path: str) -> str:
    """The kind of the mount that is nearest above a path. A later mount at the same place covers an earlier one."""
    best, kind = "", ""
    for line in mounts:
        fields, _, rest = line.partition(" - ")
        words = fields.split()
        if len(words) < 5 or not rest:
            continue
        place = _OCTAL.sub(lambda found: chr(int(found[1], 8)), words[4])  # a space in a name is written \040
        if (path == place or path.startswith(place.rstrip("/") + "/")) and len(place) >= len(best):
            best, kind = place, rest.split()[0]
    return kind
