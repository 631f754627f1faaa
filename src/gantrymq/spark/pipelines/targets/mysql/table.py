"""What the table of a target is, and whether its rows can be known by the key of the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gantrymq.spark.pipelines.targets.mysql.limits import COLUMNS, Column
from gantrymq.spark.pipelines.targets.mysql.server import MysqlSession

_UNIQUE: Final = """
SELECT INDEX_NAME, COLUMN_NAME, SUB_PART IS NOT NULL FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = COALESCE(%s, DATABASE()) AND TABLE_NAME = %s AND NON_UNIQUE = 0"""


def columns_of(session: MysqlSession, table: str) -> list[Column]:
    """The columns of a table; none, if it does not exist or must not be seen."""
    return [Column.of(row) for row in session.execute(COLUMNS, _named(table))]


def wrong_keys(session: MysqlSession, table: str, columns: Sequence[Column], key: Sequence[str]) -> Iterator[str]:
    """Why the rows of a table could take the place of each other although their keys differ, or the other way round.
    An INSERT that updates goes by every unique index, and cannot be told which one is meant."""
    indexes: dict[str, set[str]] = {}
    for index, column, is_prefix in session.execute(_UNIQUE, _named(table)):
        indexes.setdefault(index, set()).add(f"the beginning of {column}" if is_prefix else column)
    # No row of the job has a value there, so no two of them are equal.
    counted = {one.name for one in columns if one.counts} - set(key)
    binding = {index: names for index, names in indexes.items() if not names & counted}
    if set(key) not in binding.values():
        yield f"the table has no unique index of exactly {', '.join(key)}; make one, or correct the key"
    for index, names in sorted(binding.items()):
        if names != set(key):
            yield (
                f"the table has another unique index, {index} ({', '.join(sorted(names))}), and MySQL would update a "
                "row that is equal in it; drop it, or make it an index that is not unique"
            )
    for one in columns:
        if one.name in key and one.collation is not None and not _tells_apart(session, one.collation):
            yield (
                f"the column {one.name} of the key compares texts by {one.collation}, for which some that differ are "
                "equal ('a' and 'A', or 'a' and 'a '); use varbinary, or a collation such as utf8mb4_nopad_bin "
                "(MariaDB) or utf8mb4_0900_bin (MySQL)"
            )


def _tells_apart(session: MysqlSession, collation: str) -> bool:
    """Whether texts are equal only if they are the same."""
    character_set = collation.partition("_")[0]
    if not collation.replace("_", "").isalnum():
        return False
    pairs = (("a", "A"), ("a", "a "), ("a", "á"))
    asked = " OR ".join(f"CONVERT(%s USING {character_set}) COLLATE {collation} = %s" for _ in pairs)
    ((equal,),) = session.execute(f"SELECT {asked}", [one for pair in pairs for one in pair])
    return not equal


def _named(table: str) -> tuple[str | None, str]:
    database, _, name = table.rpartition(".")
    return database or None, name
