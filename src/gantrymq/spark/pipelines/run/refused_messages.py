"""Which messages of a batch the targets have refused. It is decided and on the disk before a target gets the batch.

Without this, a batch that runs again after a crash could decide otherwise, and a message would be in one table and in
the dead letters, or in neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gantrymq.errors import StoreFormatUnknown
from gantrymq.runtime.disk import Disk, read_whole, write_durably


class _Batch(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file: the newest batch of a query in which something was refused."""

    batch: int
    messages: dict[str, str]
    """The place of each message, and the reason."""


@dataclass(frozen=True, slots=True)
class RefusedMessages:
    """The decisions for the queries of one checkpoint."""

    directory: str
    disk: Disk

    def of(self, query: str, batch: int) -> dict[str, str]:
        """The messages that this batch leaves to the dead letters, as far as it is decided."""
        path = f"{self.directory}/{query}.json"
        if not self.disk.exists(path):
            return {}
        try:
            found = msgspec.json.decode(read_whole(self.disk, path), type=_Batch)
        except msgspec.DecodeError as error:
            raise StoreFormatUnknown(f"{path} does not have the expected content: {error}") from error
        return found.messages if found.batch == batch else {}

    def decide(self, query: str, batch: int, messages: Mapping[str, str]) -> None:
        """When this returns, the decision is durable."""
        self.disk.make_dirs(self.directory)
        content = msgspec.json.encode(_Batch(batch=batch, messages=dict(messages)))
        write_durably(self.disk, f"{self.directory}/{query}.json", content)
