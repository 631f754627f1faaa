"""The rows of ``bench apache``: client, operation, broker settings and goal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.apache import NotPossible


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result."""

    client: str
    """``java`` (binary headers), ``json`` (the same with JSON headers), ``ours``."""
    kind: str
    flush: str
    size: int
    threads: int

    @property
    def topic(self) -> str:
        return f"{self.client}_{self.kind}_{self.size}_{self.threads}"

    def words(self) -> set[str]:
        sets = {name for name, rows in (("core", CORE), ("short", SHORT)) if self in rows}
        return {self.client, self.kind, self.flush, str(self.size), f"{self.threads}t"} | sets

    def __str__(self) -> str:
        return f"{self.client} {self.kind} {self.flush} {self.size} B, {self.threads} threads"


FLUSHES: Final = ("async", "sync")
THREADS: Final = (1, 32, 64)
GOAL_SIZES: Final = {"plain": 128, "transaction": 2048}
"""The body size of the rows with a goal, by kind."""


def all_rows() -> list[Row]:
    rows = []
    for flush in FLUSHES:
        for size in (128, 2048):
            for client in ("java", "json", "ours"):
                for kind in ("plain", "transaction"):
                    # With JSON headers, each number of threads is measured only for the body sizes that have a goal.
                    few = client == "json" and size != GOAL_SIZES[kind]
                    for threads in (32,) if few else THREADS:
                        rows.append(Row(client, kind, flush, size, threads))
            rows.append(Row("java", "consume", flush, size, 32))
    return rows


CORE: Final = frozenset(
    {
        *(Row("java", "plain", flush, 128, threads) for flush in FLUSHES for threads in THREADS),
        *(Row("java", "transaction", flush, 2048, threads) for flush in FLUSHES for threads in (32, 64)),
        *(Row("json", kind, flush, size, 32) for kind, size in GOAL_SIZES.items() for flush in FLUSHES),
        *(Row("ours", "plain", flush, 128, 64) for flush in FLUSHES),
        *(Row("ours", "transaction", flush, 2048, 32) for flush in FLUSHES),
        Row("java", "consume", "async", 128, 32),
    }
)
"""The rows with a goal, which ``--only core`` measures."""
SHORT: Final = frozenset(row for row in CORE if row.client == "java" or row.flush == "async")
"""The rows that ``--short`` measures."""


def chosen_rows(only: list[str]) -> list[Row]:
    """The rows that match a text of ``only``, which contains words of the row; all rows for an empty list."""
    rows = all_rows()
    known = set().union(*(row.words() for row in rows))
    for text in only:
        for word in text.split():
            if word not in known:
                raise NotPossible(f"--only: {word!r} names nothing; the words are {', '.join(sorted(known))}")
    return [row for row in rows if not only or any(set(text.split()) <= row.words() for text in only)]


def rate_goal(setup: str, row: Row) -> float:
    """The goal of the compiled broker in this row, as a multiple of Apache's messages per second."""
    if row.client == "ours":
        return 1.5
    if row.kind == "consume":
        return 2.0
    if row.kind == "transaction":
        return 1.3 if setup == "shared" else {"async": 2.3, "sync": 1.9}[row.flush]
    if setup == "shared" and row.threads == 1:
        return 1.5
    return 1.9 if (setup, row.flush) == ("shared", "async") else 1.8


def cpu_goal(row: Row) -> float | None:
    """The goal of the compiled broker, as a part of Apache's processor time per message; None: there is no goal."""
    return {"plain": 0.3, "transaction": 0.45}.get(row.kind)
