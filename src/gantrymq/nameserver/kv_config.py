"""The key-values of a name server, by namespace, in a file. Source: KVConfigManager; docs/protocol.md#name-server."""

from __future__ import annotations

import os

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import Disk, read_whole, write_durably


class _File(msgspec.Struct, rename="camel"):
    config_table: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class KVConfig:
    """The content of ``kvConfig.json``. Every change is durable before it is answered. Without a path it is in memory
    only."""

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

    def get(self, namespace: str, key: str) -> str | None:
        return self._tables.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str]:
        """All keys of a namespace; empty when it has none."""
        return self._tables.get(namespace, {})

    def put(self, namespace: str, key: str, value: str) -> None:
        self._tables.setdefault(namespace, {})[key] = value
        self._save()

    def delete(self, namespace: str, key: str) -> None:
        if self._tables.get(namespace, {}).pop(key, None) is not None:
            self._save()

    def _save(self) -> None:
        if self._path:
            self._disk.make_dirs(os.path.dirname(self._path))
            write_durably(self._disk, self._path, msgspec.json.encode(_File(self._tables)))
