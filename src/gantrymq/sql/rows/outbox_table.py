"""The outbox table: messages of local transactions that did not wait for a broker. Pure.

``gantrymq_outbox`` has a row for every message that is committed, and that no broker has yet:

| column         | content                                                                                       |
|----------------|-----------------------------------------------------------------------------------------------|
| id             | the id of the local transaction that inserted it, ``-``, and the number of the message in it  |
| producer_group | whose message it is                                                                           |
| topic          | of the message                                                                                |
| message        | its flag, properties and body, by MessagePack                                                 |
| taken_by       | the process that is sending it, or sends it next                                              |
| taken_until    | until then nobody else takes it: ms since 1970, by the clock of the database                  |

``taken_by`` and ``taken_until`` only keep processes from doing the same work. What makes the sending exact is the local
transaction in which the row is deleted, see ``rules.relay``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gantrymq.message.message import Message
from gantrymq.sql.rows import transaction_id
from gantrymq.sql.rows.dialect import DatabaseKind, Dialect
from gantrymq.sql.rows.place import Place
from gantrymq.sql.rows.tables import END, EXACT, NOW, WORDS, check_name

OUTBOX: Final = "gantrymq_outbox"
TAKEN_MS: Final = 10_000
"""So long a row belongs to the process that inserted or took it. It is longer than a send may take, and every other
process waits so long for the rows of one that died."""
REFUSED_MS: Final = 30_000
"""A row that a broker refuses is left alone for so long, so that it stops no other row."""
ASIDE_MS: Final = 2_000
"""The same for a row that one broker did not take, while another one answers."""
LONGEST_MS: Final = 60_000
"""A row that belongs to somebody for longer than this was taken by a clock that was set back since. It is taken."""
COLUMNS: Final = 6
ROWS_AT_ONCE: Final = 50
"""In one statement: databases limit the number of parameters."""
BYTES_AT_ONCE: Final = 1 << 20
"""The same for the bytes of its messages: MySQL limits the size of a statement (``max_allowed_packet``)."""
_BLOBS: Final = {
    DatabaseKind.POSTGRESQL: "BYTEA",
    DatabaseKind.MYSQL: "LONGBLOB",
    DatabaseKind.MARIADB: "LONGBLOB",
    DatabaseKind.SQLITE: "BLOB",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A message in the outbox."""

    id: str
    message: Message


def row_id(transaction: str, number: int) -> str:
    """``number``: of the message in its local transaction. Ids sort by the start of the transaction, then by number."""
    return f"{transaction}-{number:06d}"


def started_ms(row: str) -> int:
    """When the local transaction of a row began: ms since 1970, by the clock of its process."""
    return int(row[: transaction_id.TIME_DIGITS], 16)


def encode(message: Message) -> bytes:
    """What is in the column ``message``."""
    return msgspec.msgpack.encode((message.flag, message.properties, message.body))


def decode(row: str, topic: str, stored: Any) -> Row:
    """A row as a database gives it. ``stored``: bytes, or what a driver has instead of them."""
    flag, values, body = msgspec.msgpack.decode(bytes(stored), type=tuple[int, dict[str, str], bytes])
    message = Message(topic, body, flag=flag)
    return Row(row, message.with_properties(values))


def outbox_ddl(kind: DatabaseKind, table: str = OUTBOX) -> list[str]:
    """The statement that makes the table and may be repeated."""
    exact, words = EXACT[kind], WORDS[kind]
    text = (
        f"CREATE TABLE IF NOT EXISTS {check_name(table)} (\n"
        f"    id VARCHAR(40){exact} NOT NULL PRIMARY KEY,\n"
        f"    producer_group VARCHAR(255){words} NOT NULL,\n"
        f"    topic VARCHAR(255){words} NOT NULL,\n"
        f"    message {_BLOBS[kind]} NOT NULL,\n"
        f"    taken_by VARCHAR(32){exact} NOT NULL,\n"
        f"    taken_until BIGINT NOT NULL\n"
        f"){END[kind]}"
    )
    return [text]


def portions(rows: Sequence[tuple[str, str, bytes]]) -> Iterator[Sequence[tuple[str, str, bytes]]]:
    """Rows (id, topic, message) in portions of one statement each."""
    begin, size = 0, 0
    for number, row in enumerate(rows):
        if number > begin and (number - begin == ROWS_AT_ONCE or size + len(row[2]) > BYTES_AT_ONCE):
            yield rows[begin:number]
            begin, size = number, 0
        size += len(row[2])
    yield rows[begin:]


# As in ``tables``: names passed ``check_name``, and what differs from call to call is a parameter.


class OutboxStatements:
    """The statements about the outbox for one database."""

    def __init__(self, dialect: Dialect, table: str = OUTBOX, place: Place | None = None) -> None:
        """``place``: where the table is, once that is known."""
        self.dialect: Final = dialect
        self.name: Final = (place or Place(check_name(table))).table
        self._now = NOW[dialect.kind].removeprefix("SELECT ")
        self._in_hex = dialect.kind in (DatabaseKind.MYSQL, DatabaseKind.MARIADB)  # aiomysql cannot send bytes

    def insert(self, count: int) -> str:
        """For each row: id, group, topic, message, taken_by, ms."""
        row = f"(?, ?, ?, {'UNHEX(?)' if self._in_hex else '?'}, ?, {self._now} + ?)"
        return self._written(
            f"INSERT INTO {self.name} (id, producer_group, topic, message, taken_by, taken_until) "  # nosec B608
            f"VALUES {', '.join([row] * count)}"
        )

    def blob(self, message: bytes) -> bytes | str:
        """A message as the parameter of ``insert``."""
        return message.hex() if self._in_hex else message

    @property
    def take(self) -> str:
        """taken_by, ms, group, taken_by, how many. Takes the oldest rows that are this process's, or nobody's."""
        free = (
            f"producer_group = ? AND (taken_by = ? OR taken_until < {self._now} "
            f"OR taken_until > {self._now} + {LONGEST_MS})"
        )
        change = f"UPDATE {self.name} SET taken_by = ?, taken_until = {self._now} + ? WHERE"  # nosec B608
        if self._in_hex:  # the same two: they select from no table that they update
            return self._written(f"{change} {free} ORDER BY id LIMIT ?")
        # Rows that another process is taking or deleting at this moment are passed over, and not waited for.
        skip = " FOR UPDATE SKIP LOCKED" if self.dialect.kind is DatabaseKind.POSTGRESQL else ""
        return self._written(
            f"{change} id IN (SELECT id FROM {self.name} WHERE {free} ORDER BY id LIMIT ?{skip})"  # nosec B608
        )

    @property
    def taken(self) -> str:
        """group, taken_by, how many. Rows of id, topic, message."""
        return self._written(
            f"SELECT id, topic, message FROM {self.name} WHERE producer_group = ? AND taken_by = ? "  # nosec B608
            "ORDER BY id LIMIT ?"
        )

    def delete(self, count: int) -> str:
        """ids"""
        return self._written(f"DELETE FROM {self.name} WHERE id IN ({_marks(count)})")  # nosec B608

    def leave(self, count: int) -> str:
        """ms, ids. Nobody takes these rows before that time is over."""
        return self._written(
            f"UPDATE {self.name} SET taken_by = '', taken_until = {self._now} + ? "  # nosec B608
            f"WHERE id IN ({_marks(count)})"
        )

    @property
    def figures(self) -> str:
        """group, how many at most. One row: how many there are, and the smallest id."""
        return self._written(
            f"SELECT COUNT(*), MIN(id) FROM (SELECT id FROM {self.name} WHERE producer_group = ? "  # nosec B608
            "ORDER BY id LIMIT ?) AS found"
        )

    @property
    def groups(self) -> str:
        """how many at most. Rows of group, how many, the smallest id."""
        return self._written(
            f"SELECT producer_group, COUNT(*), MIN(id) FROM {self.name} "  # nosec B608
            "GROUP BY producer_group ORDER BY producer_group LIMIT ?"
        )

    def _written(self, text: str) -> str:
        return self.dialect.written(text)


def _marks(count: int) -> str:
    return ", ".join("?" * count)
