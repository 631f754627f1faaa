"""JSON files in Apache's places and form: tab-indented, integer keys without quotes, ``.bak`` beside them.

Source: ConfigManager, fastjson's pretty form; docs/store.md#configuration-files.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import msgspec

from gantrymq.errors import ConfigError, RemoteProtocolError, StoreError
from gantrymq.protocol import lenient_json
from gantrymq.runtime.disk import Disk, File, read_whole, write_durably

log = logging.getLogger("gantrymq.broker")


def read_json(disk: Disk, path: str) -> dict[Any, Any] | None:
    """The content of ``path``, or of ``path.bak`` when it is missing, empty or unreadable; None when there is neither.

    Raises ConfigError when a file is there but neither can be read: starting with an empty table would lose it.
    """
    problems: list[str] = []
    for candidate in (path, path + ".bak"):
        if not disk.exists(candidate):
            continue
        data = read_whole(disk, candidate)
        try:
            value = lenient_json.loads(data) if data.strip() else None
        except RemoteProtocolError as error:
            value, reason = None, str(error)
        else:
            reason = "it is empty" if value is None else "it holds no object"
        if isinstance(value, dict):
            if problems:
                log.warning("%s; continuing with %s", "; ".join(problems), candidate)
            return value
        problems.append(f"{candidate} cannot be read: {reason}")
    if problems:
        raise ConfigError("; ".join(problems) + "; restore it from a copy, or remove it to start with an empty table")
    return None


def write_json(disk: Disk, path: str, value: dict[Any, Any]) -> None:
    """Replace the file durably."""
    write_durably(disk, path, pretty(value).encode())


class LazyFile:
    """A file that is written often and may be a little old after a crash: the loop never waits for the disk.

    The old content stays until the new one is safe. One write is under way at a time.
    """

    def __init__(self, disk: Disk, path: str, *, lasting: bool = False) -> None:
        """``lasting``: the name of the new content is made durable, too. Else a power cut may bring back the content of
        some seconds ago."""
        self._disk = disk
        self._path = path
        self._lasting = lasting
        self._writing: File | None = None
        self.dirty = False
        """Set by the owner when there is something to write; cleared by writing."""
        self.begun = 0
        """Number of the last write that has begun, and"""
        self.kept = 0
        """of the last one whose content is the file's now."""

    def write(self, value: dict[Any, Any]) -> None:
        """Write now, durably; raises StoreError."""
        self.begun += 1
        write_json(self._disk, self._path, value)
        self.kept = self.begun
        self.dirty = False
        self._writing = None

    def write_later(self, content: Callable[[], dict[Any, Any]]) -> None:
        """Write what ``content`` returns, unless nothing changed. A failure is logged and the next call tries again.

        Raises StoreError or OSError when the new file cannot even be made.
        """
        if not self.dirty or self._writing is not None:
            return
        file = self._disk.open(self._path + ".new", create=True)
        try:
            file.truncate(0)
            file.write(pretty(content()).encode(), 0)
        except BaseException:
            file.close()
            raise
        self.dirty = False
        self.begun += 1
        self._writing = file
        self._disk.sync_later([file], lambda error: self._synced(file, error))

    def _synced(self, file: File, error: BaseException | None) -> None:
        file.close()
        if self._writing is not file:
            return  # something newer has been written meanwhile
        self._writing = None
        if error is None:
            try:
                self._disk.rename(file.path, self._path)
                self.kept = self.begun
                if self._lasting:
                    self._keep_name()
            except (StoreError, OSError) as failure:
                error = failure
        if error is not None:
            self.dirty = True
            log.error("%s could not be written: %s", self._path, error)

    def _keep_name(self) -> None:
        directory = self._disk.open_dir(os.path.dirname(self._path))

        def synced(error: BaseException | None) -> None:
            directory.close()
            if error is not None:
                log.error("the name of %s could not be made durable: %s", self._path, error)

        self._disk.sync_later([directory], synced)


def pretty(value: Any, indent: str = "") -> str:
    """``value`` as fastjson prints it for people: sorted names, tabs, integer keys unquoted, nulls left out."""
    if isinstance(value, dict):
        if value and all(type(key) is int and type(item) is int for key, item in value.items()):
            # Offsets by queue, of which there may be hundreds of thousands in one file.
            lines = [f"{indent}\t{key}:{item}" for key, item in sorted(value.items())]
            return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
        inner = indent + "\t"
        items = sorted((entry for entry in value.items() if entry[1] is not None), key=lambda entry: entry[0])
        lines = [f"{inner}{_key(key)}:{pretty(item, inner)}" for key, item in items]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}" if lines else "{}"
    if isinstance(value, list):
        inner = indent + "\t"
        lines = [inner + pretty(item, inner) for item in value]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]" if lines else "[]"
    return msgspec.json.encode(value).decode()


def _key(key: Any) -> str:
    return str(key) if isinstance(key, int) else msgspec.json.encode(key).decode()
