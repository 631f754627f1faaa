"""What the checkpoint of a job says: Spark's files in it, and which messages of a batch the targets have refused.

A refusal is decided and on the disk before a target gets the batch. Without this, a batch that runs again after a crash
could decide otherwise, and a message would be in one table and in the dead letters, or in neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gantrymq.errors import InvariantViolated, StoreFormatUnknown
from gantrymq.runtime.disk import Disk, read_whole, write_durably
from gantrymq.spark.offsets import Positions, StreamOffset


def query_id(checkpoint: str, disk: Disk) -> str:
    """The query id in Spark's checkpoint. It exists before the first batch runs."""
    try:
        return str(msgspec.json.decode(read_whole(disk, f"{checkpoint}/metadata"))["id"])
    except (FileNotFoundError, msgspec.DecodeError, KeyError) as error:
        raise InvariantViolated(f"{checkpoint} does not contain the metadata of a Spark query") from error


def begin_of_batch(checkpoint: str, number: int, disk: Disk) -> Positions:
    """Where a batch begins in each queue: where the one before it ended. Empty for the first one.

    Source: OffsetSeqLog of Spark: the version, the facts of the batch, then a line for each source.
    """
    path = f"{checkpoint}/offsets/{number - 1}"
    if not disk.exists(path):
        return {}
    lines = read_whole(disk, path).split(b"\n")
    try:
        return StreamOffset.from_json(msgspec.json.decode(lines[2], type=dict[str, Any])).positions
    except (IndexError, msgspec.DecodeError) as error:
        raise InvariantViolated(f"{path} does not contain the offsets of a Spark query") from error


def has_batches(checkpoint: str, disk: Disk) -> bool:
    """Whether the query has finished a batch. Its messages are not read again with this checkpoint."""
    return any(name.isdigit() for name in disk.list(f"{checkpoint}/commits"))


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
