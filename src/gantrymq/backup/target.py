"""Where backups lie: a directory, or a bucket of an object store. Objects have names and bytes, and never change."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from gantrymq.backup.manifest import LOG_PARTS, MANIFESTS, TABLES
from gantrymq.errors import BackupRefused, StoreError, StoreLocked
from gantrymq.runtime.disk import Disk, read_whole, write_durably
from gantrymq.runtime.guesses.directories import expanded

_LOCK: Final = "lock"


class Target(Protocol):
    """A place for objects. Every call raises StoreError where the place refuses it."""

    @property
    def place(self) -> str:
        """What people call it."""

    def sizes(self, folder: str) -> dict[str, int]:
        """Name to size of the objects whose names begin with ``folder``, which ends with a slash."""

    def read(self, name: str) -> bytes:
        """Raises FileNotFoundError when there is no such object."""

    def write(self, name: str, data: bytes) -> None:
        """Store an object. When it can be seen it is whole, or its size is wrong."""

    def remove(self, name: str) -> None:
        """Remove an object; harmless when absent."""

    def held(self) -> contextlib.AbstractContextManager[None]:
        """While something is written. Raises BackupRefused when another process writes here, if the place can tell."""


class DirectoryTarget:
    """A directory of a file system. Objects are written durably, and nobody but this user can read them."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.place: Final = path

    def _path(self, name: str) -> str:
        return os.path.join(self.place, name.rstrip("/"))

    def sizes(self, folder: str) -> dict[str, int]:
        found = {}
        for name in self._disk.list(self._path(folder)):
            if not name.endswith(".tmp"):
                with contextlib.suppress(FileNotFoundError):
                    found[folder + name] = self._disk.size(self._path(folder + name))
        return found

    def read(self, name: str) -> bytes:
        return read_whole(self._disk, self._path(name))

    def write(self, name: str, data: bytes) -> None:
        write_durably(self._disk, self._path(name), data, private=True)

    def remove(self, name: str) -> None:
        self._disk.remove(self._path(name))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        for folder in (LOG_PARTS, TABLES, MANIFESTS):
            self._disk.make_dirs(self._path(folder))
        try:
            lock = self._disk.lock(self._path(_LOCK))
        except StoreLocked:
            raise BackupRefused(f"another backup is being written to {self.place}; wait until it has ended") from None
        try:
            yield
        finally:
            self._remove_temporary()
            lock.release()

    def _remove_temporary(self) -> None:
        """What an interrupt, or a process that was killed, left of an object."""
        for folder in (LOG_PARTS, TABLES, MANIFESTS):
            for name in self._disk.list(self._path(folder)):
                if name.endswith(".tmp"):
                    with contextlib.suppress(StoreError, OSError):
                        self._disk.remove(self._path(folder + name))


def open_target(place: str, disk: Disk) -> Target:
    """``place``: a path, or an URL such as ``s3://bucket/broker-a``. Raises ConfigError or StoreError."""
    if "://" in place and not place.startswith("file://"):
        from gantrymq.backup.object_store import ObjectStore  # loads pyarrow

        return ObjectStore(place)
    return DirectoryTarget(disk, os.path.abspath(expanded(Path(place.removeprefix("file://")), "the target")))
