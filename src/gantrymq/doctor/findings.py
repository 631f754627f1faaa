"""What a look found out to be wrong. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    """Something does not work now, or messages can be lost now."""
    WARNING = "warning"
    """A person has to do or decide something."""
    NOTE = "note"
    """Worth knowing; it may be meant so."""


class Kind(Enum):
    """What a finding is about."""

    NAME_SERVER = "name server"
    BROKER = "broker"
    GROUP = "group"
    STORE = "store"
    MACHINE = "machine"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong."""

    rule: str
    """The name of the rule, for example ``nobody-can-decide``. It does not change with the wording."""
    severity: Severity
    kind: Kind
    subject: str
    """Which one: an address, or the name of a broker or a group."""
    sentence: str
    """What is wrong."""
    advice: str
    """What to do."""
    unseen: bool = False
    """Something could not be looked at, so that more may be wrong there."""
