"""What a start finds of a store, and what that means: the first decision of every recovery."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gantrymq.errors import InvariantViolated


@dataclass(frozen=True, slots=True)
class Facts:
    """What a start finds."""

    has_log: bool
    has_queues: bool
    clean: bool
    """No abort file: the last broker was shut down in order, and its queues are complete."""
    has_mark: bool
    """Our mark belongs to this log."""
    has_checkpoint: bool


class Case(enum.Enum):
    """Where the queues are known to be good up to."""

    NEW = "an empty directory"
    NO_LOG = "queues without a log: they point to nothing"
    CLEAN = "shut down in order: good up to the last record any queue names"
    MARKED = "died: good up to our mark"
    APACHE_DIED = "died without our mark: good up to the file that Apache's checkpoint names"
    UNKNOWN = "nothing is known: build the queues from the first record on"


CASES: tuple[tuple[dict[str, bool], Case], ...] = (
    ({"has_log": False, "has_queues": False}, Case.NEW),
    ({"has_log": False, "has_queues": True}, Case.NO_LOG),
    ({"has_log": True, "has_queues": True, "clean": True}, Case.CLEAN),
    ({"has_log": True, "has_queues": True, "clean": False, "has_mark": True}, Case.MARKED),
    ({"has_log": True, "has_queues": True, "clean": False, "has_mark": False, "has_checkpoint": True},
     Case.APACHE_DIED),
    ({"has_log": True, "has_queues": True, "clean": False, "has_mark": False, "has_checkpoint": False}, Case.UNKNOWN),
    ({"has_log": True, "has_queues": False}, Case.UNKNOWN),
)  # fmt: skip
"""Exactly one row holds for any facts (a test tries them all)."""


def decide(facts: Facts) -> Case:
    """The case of the facts."""
    rows = [case for row, case in CASES if all(getattr(facts, name) == value for name, value in row.items())]
    if len(rows) != 1:
        raise InvariantViolated(f"{len(rows)} recovery cases hold for {facts}")
    return rows[0]
