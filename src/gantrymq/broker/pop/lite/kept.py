"""Subscriptions of lite topics in a file, so that clients go on behind a restart before they repeat them.

Clients repeat them every 30 s, so a file that is some seconds old, or lost, costs only time. Only GantryMQ has it:
Apache's broker keeps them in memory.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from gantrymq.broker.pop.lite.subscriptions import SUBSCRIPTIONS_MAX, LiteReader, LiteSubscriptions
from gantrymq.broker.refusal import Refused
from gantrymq.broker.registries.json_file import LazyFile, read_json
from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import Disk

log = logging.getLogger("gantrymq.broker")

FILE_NAME: Final = "gantry/lite_subscriptions"


class KeptSubscriptions:
    """Reads and writes them."""

    def __init__(self, disk: Disk, path: str, subscriptions: LiteSubscriptions) -> None:
        self._subscriptions = subscriptions
        self._file = LazyFile(disk, path)
        self._read(disk, path)

    def _read(self, disk: Disk, path: str) -> None:
        try:
            content = read_json(disk, path) or {}
            for client, group, queues in content.get("readers", []):
                self._subscriptions.add(LiteReader(str(client), str(group)), map(str, queues), SUBSCRIPTIONS_MAX)
        except (ConfigError, Refused, TypeError, ValueError, AttributeError) as error:
            log.warning("subscriptions of lite topics could not be read, clients will repeat them: %s", error)
        self._subscriptions.changed = False

    def save_later(self) -> None:
        """Write what changed. Raises StoreError."""
        if self._subscriptions.changed:
            self._subscriptions.changed = False
            self._file.dirty = True
        self._file.write_later(self._content)

    def save(self) -> None:
        """Write now. Raises StoreError."""
        if self._subscriptions.changed or self._file.dirty:
            self._subscriptions.changed = False
            self._file.write(self._content())

    def _content(self) -> dict[str, Any]:
        of = self._subscriptions.of
        return {"readers": [[*reader, list(of(reader))] for reader in self._subscriptions.all_readers()]}
