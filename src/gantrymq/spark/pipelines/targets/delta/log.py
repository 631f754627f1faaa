"""Reads from the log of a Delta table which applications have written there. The library ``deltalake`` can only be
asked for one by its name.

Source: the Delta protocol, "Transaction Identifiers" and "Checkpoints".
"""

from __future__ import annotations

from typing import Any

import msgspec

LOG = "_delta_log"


class _LastCheckpoint(msgspec.Struct):
    version: int
    parts: int | None = None


class _Transaction(msgspec.Struct, rename="camel"):
    app_id: str
    version: int


class _Action(msgspec.Struct):
    """A line of a commit; other kinds of actions are left out."""

    txn: _Transaction | None = None


_PLAIN = {"appendOnly", "timestampNtz", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck", "changeDataFeed"}
"""Features of tables to which a file can be added as it is."""
_CONDITIONS = ("delta.constraints.", "delta.columnMapping.mode")
_OF_COLUMNS = ("delta.invariants", "delta.generationExpression", "delta.identity")


def files_of(uri: str) -> Any:
    """The files of a table, with paths that begin at its directory."""
    import pyarrow.fs as pa_fs
    from deltalake.fs import DeltaStorageHandler

    return pa_fs.PyFileSystem(DeltaStorageHandler(uri))


def is_plain(table: Any) -> bool:
    """Whether a file with the columns of the table is all that is needed to add rows."""
    facts, schema = table.metadata(), table.schema().to_json()
    features = set(table.protocol().writer_features or ())
    conditions = any(key.startswith(_CONDITIONS) for key in facts.configuration)
    return not (facts.partition_columns or features - _PLAIN or conditions or any(one in schema for one in _OF_COLUMNS))


def applications(table: Any) -> dict[str, int]:
    """Each application that has written to a table, with the number of its last transaction."""
    files = files_of(table.table_uri)
    found, version = _in_checkpoint(files)
    for number in range(version + 1, table.version() + 1):
        with files.open_input_stream(f"{LOG}/{number:020d}.json") as stream:
            lines = stream.read().splitlines()
        found |= {
            action.txn.app_id: action.txn.version
            for action in msgspec.json.decode(b"[" + b",".join(lines) + b"]", type=list[_Action])
            if action.txn is not None
        }
    return found


def _in_checkpoint(files: Any) -> tuple[dict[str, int], int]:
    """What the last checkpoint of the log has, and its version; -1 without a checkpoint."""
    import pyarrow.parquet as pq

    try:
        with files.open_input_stream(f"{LOG}/_last_checkpoint") as stream:
            last = msgspec.json.decode(stream.read(), type=_LastCheckpoint)
    except FileNotFoundError:
        return {}, -1
    name = f"{LOG}/{last.version:020d}.checkpoint"
    parts = last.parts or 1
    names = [f"{name}.{number:010d}.{parts:010d}.parquet" for number in range(1, parts + 1)]
    found: dict[str, int] = {}
    for path in names if parts > 1 else [f"{name}.parquet"]:
        with files.open_input_file(path) as file:
            transactions = pq.read_table(file, columns=["txn"])["txn"].drop_null().to_pylist()
        found |= {one["appId"]: one["version"] for one in transactions if one["appId"] is not None}
    return found, last.version
