"""The status of streaming queries as files: one JSON object per query, in a directory that tools read.

A file is replaced as a whole, so a reader never sees half of it: ``gantry pipeline status``, or any program that reads
JSON. The directory may be shared by all queries of a machine.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from gantrymq.errors import StoreError
from gantrymq.runtime.disk import Disk, read_whole, write_durably
from gantrymq.runtime.guesses.directories import state_directory

DIRECTORY_VARIABLE: Final = "GANTRY_STATUS_DIR"
"""The environment variable with the directory; a session of ``spark_session`` writes there when it is set."""
SUFFIX: Final = ".query.json"

RUNNING, STOPPED, FAILED = "running", "stopped", "failed"


class QueryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one query."""

    id: str
    """Spark's id of the query, which is the same after a restart from its checkpoint."""
    name: str | None
    state: str
    """running, stopped or failed."""
    at_ms: int
    """When this was written, milliseconds since 1970."""
    process: int
    """The process of the driver."""
    batch: int | None = None
    rows: int = 0
    """Rows that this run has read."""
    rows_per_second: float | None = None
    """Of the last batch."""
    rows_behind: int | None = None
    seconds_behind: float | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    error: str | None = None
    """The first line of the error of a query that failed."""


def default_directory() -> str:
    """Where ``gantry pipeline`` keeps the status of the queries of this user. Raises ConfigError for a user without a
    home directory."""
    if given := os.environ.get(DIRECTORY_VARIABLE):
        return given
    return str(state_directory(f"set {DIRECTORY_VARIABLE}") / "gantrymq" / "queries")


def is_alive(process: int) -> bool:
    """Whether a process of this machine runs: a query whose process died without a word still says `running`."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class StatusFiles:
    """The files of one directory."""

    def __init__(self, directory: str, disk: Disk) -> None:
        self.directory = directory
        self._disk = disk

    def write(self, status: QueryStatus) -> None:
        """Replace the file of a query. Raises OSError or StoreError when the directory cannot be written."""
        self._disk.make_dirs(self.directory)
        write_durably(self._disk, f"{self.directory}/{status.id}{SUFFIX}", msgspec.json.encode(status) + b"\n")

    def read(self) -> list[QueryStatus]:
        """The status of every query, in the order of names. Files that are not of this form are left out."""
        if not self._disk.is_dir(self.directory):
            return []
        names = [name for name in self._disk.list(self.directory) if name.endswith(SUFFIX)]
        found = [self._one(f"{self.directory}/{name}") for name in names]
        return sorted((one for one in found if one is not None), key=lambda one: (one.name or "", one.id))

    def _one(self, path: str) -> QueryStatus | None:
        try:
            return msgspec.json.decode(read_whole(self._disk, path), type=QueryStatus)
        except (OSError, StoreError, msgspec.DecodeError):
            return None
