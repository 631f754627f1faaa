"""What a job reads of Spark's checkpoint."""

from __future__ import annotations

from typing import Any

import msgspec

from gantrymq.errors import InvariantViolated
from gantrymq.runtime.disk import Disk, read_whole
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
