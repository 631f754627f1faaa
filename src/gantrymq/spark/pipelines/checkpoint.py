"""What a job reads of Spark's checkpoint."""

from __future__ import annotations

import msgspec

from gantrymq.errors import InvariantViolated
from gantrymq.runtime.disk import Disk, read_whole


def query_id(checkpoint: str, disk: Disk) -> str:
    """The query id in Spark's checkpoint. It exists before the first batch runs."""
    try:
        return str(msgspec.json.decode(read_whole(disk, f"{checkpoint}/metadata"))["id"])
    except (FileNotFoundError, msgspec.DecodeError, KeyError) as error:
        raise InvariantViolated(f"{checkpoint} does not contain the metadata of a Spark query") from error


def has_batches(checkpoint: str, disk: Disk) -> bool:
    """Whether the query has finished a batch. Its messages are not read again with this checkpoint."""
    return any(name.isdigit() for name in disk.list(f"{checkpoint}/commits"))
