"""Blocks as values: what a program does in one local transaction with messages, right or wrong.

A *unit* is a row and a message about it. Whatever happens to a block, the row and the message of each unit must agree.
A block is made by chance (``generate``), executed on a real database (``play``), judged (``judge``), and made shorter
when it breaks a rule (``shrink``).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any


class Do(enum.Enum):
    """What a step does; ``kind`` says how."""

    PAY = "pay"
    """A unit: ``row_first`` or ``message_first``; the steps inside come between the two."""
    SEND = "send"
    """A message without a row."""
    SAVEPOINT = "savepoint"
    """The steps inside are in a savepoint. ``kind``: who makes it. ``ends``: release, error or rollback."""
    FAIL = "fail"
    """A statement that fails: duplicate, syntax, missing."""
    STATEMENT = "statement"
    """One of the table ``statements``: DDL, another schema, COMMIT as text, ..."""
    CALL = "call"
    """A method of the library's own object: commit, rollback, close, ..."""
    SERVER = "server"
    """The database rolls back by itself: deadlock, lock_timeout, or_rollback, trigger."""
    DIE = "die"
    """The connection is lost: terminated, socket, cut_before and cut_after (the COMMIT)."""
    RAISE = "raise"
    """The program raises: error; or, in the first attempt of ``run``, again."""


@dataclass(frozen=True, slots=True)
class Step:
    do: Do
    kind: str = ""
    caught: bool = False
    """The program catches what the step raises, and goes on."""
    ends: str = ""
    inner: tuple[Step, ...] = ()

    def text(self) -> str:
        words = [self.do.value, self.kind, self.ends and f"ends: {self.ends}", "caught" if self.caught else ""]
        return " ".join(word for word in words if word)


@dataclass(frozen=True, slots=True)
class Block:
    """One local transaction."""

    way: str
    """The way in: connections, sessions, django, ..."""
    database: str
    setting: str = "default"
    """Of the engine, the sessions, the pool or the driver."""
    form: str = "begin"
    """How the block is written: ``transactions.begin()``, ``on(connection)``, ``Session.begin()``, ``run``, ..."""
    steps: tuple[Step, ...] = ()

    def lines(self) -> list[str]:
        """The block as a text that a person can follow."""
        return [f"{self.way} on {self.database}, setting {self.setting}, form {self.form}:", *_lines(self.steps, 1)]

    def as_json(self) -> dict[str, Any]:
        return asdict(self, dict_factory=_plain)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Block:
        return cls(**{**given, "steps": tuple(map(_step, given["steps"]))})


def _plain(items: list[tuple[str, Any]]) -> dict[str, Any]:
    return {
        name: value.value if isinstance(value, enum.Enum) else value for name, value in items if value not in ("", ())
    }


def _step(given: dict[str, Any]) -> Step:
    return Step(**{**given, "do": Do(given["do"]), "inner": tuple(map(_step, given.get("inner", ())))})


def _lines(steps: tuple[Step, ...], depth: int) -> Iterator[str]:
    for step in steps:
        yield "    " * depth + step.text() + (":" if step.inner else "")
        yield from _lines(step.inner, depth + 1)


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """All steps, also those inside of others."""
    for step in steps:
        yield step
        yield from walk(step.inner)
