"""What a replica has and its primary does not have: it is written to files before it is cut from the log.

Both files are in ``gantry/surplus`` of the store, and are named after the log offset where the surplus begins:

| file      | content                                                                                        |
|-----------|------------------------------------------------------------------------------------------------|
| ``.log``  | the bytes of the log, as they were                                                             |
| ``.json`` | a line for each record: what it is, its topic, queue and queue offset, ids, keys, times, size  |

Nothing but people reads them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from gantrymq.message import flags, properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF, OP
from gantrymq.runtime.disk import Disk
from gantrymq.store.message_store import MessageStore
from gantrymq.transactions.records.half import parse_op

FOLDER: Final = "gantry/surplus"
LOG, LINES = ".log", ".json"
PIECE_BYTES: Final = 1 << 20


def keep(store: MessageStore, disk: Disk, position: int, now_ms: int) -> tuple[str, int]:
    """Write everything from log offset ``position`` on to both files, durably. Returns the path of the ``.json``, and
    the number of records. Raises StoreError or OSError; then the log must not be cut. It may be large, so nothing of it
    comes out of the reserve for a full disk."""
    disk.make_dirs(store.path(FOLDER))
    name = store.path(f"{FOLDER}/{position:020d}-{now_ms}")
    count = _write(disk, name + LINES, _lines(store, position))
    _write(disk, name + LOG, _pieces(store, position))
    disk.sync_dir(store.path(FOLDER))
    disk.sync_dir(store.path("gantry"))
    return name + LINES, count


def _lines(store: MessageStore, position: int) -> Iterator[bytes]:
    for record in store.scan(position, waiting=True):
        yield json.dumps(shown(record), ensure_ascii=False).encode() + b"\n"


def _pieces(store: MessageStore, position: int) -> Iterator[bytes]:
    while position < store.written:
        data = store.read_raw(position, min(PIECE_BYTES, store.written - position))
        if not data:
            return
        yield data
        position += len(data)


def _write(disk: Disk, path: str, pieces: Iterator[bytes]) -> int:
    """How many pieces there were."""
    file = disk.open(path, create=True)
    count = place = 0
    try:
        for piece in pieces:
            file.write(piece, place)
            place += len(piece)
            count += 1
        file.sync()
    finally:
        file.close()
    return count


def shown(record: StoredMessage) -> dict[str, Any]:
    """A record for people."""
    text = record.properties_text
    line: dict[str, Any] = {
        "kind": _kind(record),
        "topic": properties.find(text, properties.REAL_TOPIC) or record.topic,
        "queue": record.queue_id,
        "queueOffset": int(record.queue_offset),
        "id": properties.find(text, properties.UNIQ_KEY),
        "keys": properties.find(text, properties.KEYS),
        "stored": record.store_timestamp,
        "logOffset": int(record.log_offset),
        "size": record.size,
    }
    if record.topic == OP:
        line["ends"] = parse_op(record.body)
    return {name: value for name, value in line.items() if value is not None}


def _kind(record: StoredMessage) -> str:
    if record.topic == HALF:
        return "half message"
    if record.topic == OP:
        return "end of half messages"
    if flags.transaction_type(record.sys_flag) == flags.COMMITTED:
        return "committed message"
    return "message"
