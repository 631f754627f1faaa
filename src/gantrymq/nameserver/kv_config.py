"""The key-values of a name server, by namespace, in a file. Source: KVConfigManager; docs/protocol.md#name-server."""

from __future__ import annotations

import os
from typing import Final

import msgspec

from gantrymq.errors import ConfigError, RequestRejected
from gantrymq.protocol.codes import ResponseCode
from gantrymq.runtime.disk import Disk, read_whole, write_durably

MAX_CHARACTERS: Final = 8_000_000
"""Of all names and values together: the file is written as a whole."""


class _File(msgspec.Struct, rename="camel"):
    config_table: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class KVConfig:
    """The content of ``kvConfig.json``. Whoever changes something calls ``save`` before the answer. Without a path it
    is in memory only."""

    def __init__(self, disk: Disk, path: str) -> None:
        """Raises ConfigError when the file exists and cannot be read."""
        self._disk = disk
        self._path = path
        self._tables: dict[str, dict[str, str]] = {}
        if path and disk.exists(path):
            try:
                self._tables = msgspec.json.decode(read_whole(disk, path), type=_File).config_table
            except msgspec.MsgspecError as error:
                raise ConfigError(
                    f"{path} is not a key-value file of a name server: {error}; remove or repair it"
                ) from error
        self._dirty = False
        self._characters = sum(
            len(namespace) + len(key) + len(value)
            for namespace, table in self._tables.items()
            for key, value in table.items()
        )

    def get(self, namespace: str, key: str) -> str | None:
        return self._tables.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str]:
        """All keys of a namespace; empty when it has none."""
        return self._tables.get(namespace, {})

    def put(self, namespace: str, key: str, value: str) -> None:
        """Raises RequestRejected when all together would be too large."""
        known = self._tables.get(namespace, {}).get(key)
        more = len(value) - len(known) if known is not None else len(namespace) + len(key) + len(value)
        if more > 0 and self._characters + more > MAX_CHARACTERS:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"the key-values have {self._characters} characters, and at most {MAX_CHARACTERS} are kept; "
                "delete some",
            )
        self._characters += more
        self._tables.setdefault(namespace, {})[key] = value
        self._dirty = True

    def delete(self, namespace: str, key: str) -> None:
        gone = self._tables.get(namespace, {}).pop(key, None)
        if gone is not None:
            self._characters -= len(namespace) + len(key) + len(gone)
            self._dirty = True

    def save(self) -> None:
        """Put the changes on the disk, if there are any. Raises StoreError."""
        if self._path and self._dirty:
            self._disk.make_dirs(os.path.dirname(self._path))
            write_durably(self._disk, self._path, msgspec.json.encode(_File(self._tables)))
        self._dirty = False
