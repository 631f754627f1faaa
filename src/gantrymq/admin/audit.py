"""The audit file: what people decided about transactions, one JSON line before acting and one after.

A line is on the disk before the call returns, and if the first line cannot be written nothing is done. So every
decision can be traced to a person, a time and a reason, even if the tool or the machine died in between. Lines are
only appended.

    when        UTC
    decision    the same in both lines of one decision
    phase       intended, then done, refused or unknown (no answer: it may or may not have been executed); a dry run
                leaves a single line
    who, host   of the person: login name, machine
    action      commit, rollback, resume
    why         what --why said
    ...         which transaction, and where

The file is ``--audit``, else ``GANTRY_AUDIT``, else ``gantry/audit.jsonl`` under ``XDG_STATE_HOME``
(``~/.local/state``).
"""

from __future__ import annotations

import enum
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gantrymq.errors import GantryError
from gantrymq.runtime.calendar import iso
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.guesses.directories import state_directory
from gantrymq.runtime.guesses.person import host_name, user_name

VARIABLE: Final = "GANTRY_AUDIT"


class AuditFailed(GantryError):
    """The audit file could not be written, so nothing was done."""

    what_to_do = "Make the file writable, or name another one with `--audit`."


class Phase(enum.StrEnum):
    """How far a decision has got."""

    DRY_RUN = "dry run"
    INTENDED = "intended"
    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


def default_path() -> Path:
    """The path of the audit file when no option and no variable names one. Raises ConfigError for a user without a
    home directory."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    return state_directory(f"name the file with --audit, set {VARIABLE}") / "gantry" / "audit.jsonl"


class AuditFile:
    """Appends lines."""

    def __init__(
        self, path: Path, clock: Clock, told: Callable[[str, Phase], None] = lambda action, phase: None
    ) -> None:
        """``told``: called with action and phase of each line that was written, e.g. to count them."""
        self._path = path
        self._clock = clock
        self.told = told

    @property
    def path(self) -> Path:
        return self._path

    def decision(self, person: str | None = None, **facts: Any) -> Decided:
        """A decision to be recorded; ``facts`` are in each of its lines. ``person``: who decides; default: the user of
        this process."""
        return Decided(self, secrets.token_hex(6), {"who": person or who(), "host": host_name(), **facts})

    def append(self, line: dict[str, Any]) -> None:
        """Raises AuditFailed when the line is not on the disk."""
        text = json.dumps({"when": iso(self._clock.wall_ms()), **line}, ensure_ascii=False) + "\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                data = text.encode()
                if os.write(descriptor, data) != len(data):
                    raise OSError("the line was written in part only")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise AuditFailed(
                f"the record of decisions {self._path} cannot be written ({error.strerror or error}); make it "
                "writable, or name another file with --audit"
            ) from error


class Decided:
    """One decision, from intention to outcome."""

    def __init__(self, file: AuditFile, number: str, facts: dict[str, Any]) -> None:
        self._file = file
        self._number = number
        self._facts = facts

    def note(self, phase: Phase, outcome: str | None = None) -> None:
        """Write a line. Raises AuditFailed."""
        end = {} if outcome is None else {"outcome": outcome}
        self._file.append({"decision": self._number, "phase": str(phase), **self._facts, **end})
        self._file.told(str(self._facts.get("action", "")), phase)


def who() -> str:
    """The person: the user who logged in, also when the command runs under sudo."""
    name = user_name()
    behind = os.environ.get("SUDO_USER")
    return f"{behind} as {name}" if behind and behind != name else name
