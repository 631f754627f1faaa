"""The files of a store directory that are copied as a whole: which ones, in which order, and what a restore changes.

Everything that the log does not say: topics, groups, users, offsets of consumers, how far delayed and timed messages
were delivered, selectors, and the journals of transactions. Pure: bytes in, bytes out.

Queues, index, marks, open half messages and decisions are not copied. A start builds them from the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gantrymq.broker.delivery.delivered import FILE_NAME as DELIVERED
from gantrymq.broker.pop.check_point import APPLIED_GROUP, REVIVE_GROUP
from gantrymq.broker.registries.json_file import pretty
from gantrymq.broker.registries.registries import GROUPS_FILE, OFFSETS_FILE, TOPICS_FILE
from gantrymq.broker.transactions.history import DIRECTORY as HISTORY
from gantrymq.errors import BackupDamaged, RemoteProtocolError
from gantrymq.protocol import lenient_json

CONFIG: Final = "config"
USERS: Final = "config/auth"
DELETED: Final = "gantry/deleted"
FOLDERS: Final = (CONFIG, USERS, HISTORY)
"""All files directly in them are copied,"""
SINGLE: Final = (DELIVERED, DELETED)
"""and these."""
_UNFINISHED: Final = (".tmp", ".new")
_BEFORE: Final = ".bak"
_LATE: Final = (TOPICS_FILE, GROUPS_FILE, DELETED)
_ONE_AHEAD: Final = (REVIVE_GROUP, APPLIED_GROUP)
"""Their offsets name the last message that is done, and not the next one."""
NAMED: Final = {TOPICS_FILE: "topicConfigTable", GROUPS_FILE: "subscriptionGroupTable"}
"""Tables whose entries have names, and where in the file they lie."""


def names_in(folder: str, listed: list[str]) -> list[str]:
    """Which files of a folder are copied. A ``.bak`` counts only where the file itself is missing: Apache's broker
    moves the old content there before it writes the new one."""
    known = [name for name in listed if not name.endswith((*_UNFINISHED, _BEFORE))]
    lost = [name.removesuffix(_BEFORE) for name in listed if name.endswith(_BEFORE)]
    return [f"{folder}/{name}" for name in sorted({*known, *lost})]


def is_late(path: str) -> bool:
    """Whether a table is read behind the end of the log, and not before it.

    A position must not lie behind the end of the log: it is read first. A topic or a user must not be missing for a
    record that is in the log: it is read last, and so is what says that the records of a topic do not count.
    """
    return path in _LATE or path.startswith(USERS + "/")


def is_whole(path: str, data: bytes) -> bool:
    """Whether the content of a file can be used, as far as it is JSON."""
    if not path.endswith(".json"):
        return True
    try:
        return isinstance(lenient_json.loads(data), dict)
    except RemoteProtocolError:
        return False


def deleted_topics(data: bytes | None) -> dict[str, int]:
    """The content of ``gantry/deleted``. Raises BackupDamaged."""
    try:
        return {} if data is None else msgspec.json.decode(data, type=dict[str, int])
    except msgspec.MsgspecError as error:
        raise BackupDamaged(f"{DELETED} in the backup cannot be read: {error}") from error


def deleted_before(cut: int, at_tables: Mapping[str, int], at_log: Mapping[str, int]) -> dict[str, int]:
    """What was deleted when the log ended at ``cut``, between the backups of the tables and of the log: the deletion of
    a topic at or behind ``cut`` did not happen, and one before it counts even if the older backup does not know it."""
    known = {topic: position for topic, position in at_log.items() if position < cut}
    return {**at_tables, **known}


def joined(path: str, older: bytes, newer: bytes) -> bytes:
    """A table of topics or groups as it was in the older backup, and what was made between both."""
    name = NAMED.get(path)
    if name is None:
        return older
    content, later = _object(path, older), _object(path, newer)
    table, added = dict(content.get(name) or {}), later.get(name) or {}
    new = {key: value for key, value in added.items() if key not in table}
    if not new:
        return older
    content[name] = {**table, **new}
    return pretty(content).encode()


def lowered(data: bytes, ends: Mapping[tuple[str, int], int]) -> tuple[bytes, int]:
    """The offsets of consumers without those behind the ends of their queues, where messages would be missed; and how
    many were lowered."""
    content = _object(OFFSETS_FILE, data)
    table: dict[str, dict[int, int]] = {}
    changed = 0
    for key, queues in (content.get("offsetTable") or {}).items():
        topic, _, group = key.rpartition("@")
        ahead = 1 if group in _ONE_AHEAD else 0
        table[key] = {}
        for queue_id, offset in queues.items():
            most = ends.get((topic, int(queue_id)), 0) - ahead
            changed += int(offset) > most
            table[key][int(queue_id)] = min(int(offset), most)
    if not changed:
        return data, 0
    content["offsetTable"] = table
    return pretty(content).encode(), changed


def _object(path: str, data: bytes) -> dict[Any, Any]:
    try:
        content = lenient_json.loads(data)
    except RemoteProtocolError as error:
        raise BackupDamaged(f"{path} in the backup cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise BackupDamaged(f"{path} in the backup is not a table")
    return content
