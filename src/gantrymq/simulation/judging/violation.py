"""A violation that a judge of histories found."""

from __future__ import annotations

from dataclasses import dataclass

from gantrymq.simulation.judging.history import Event


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken."""

    rule: str
    transaction: str
    """Or the message, where groups are judged."""
    text: str
    evidence: tuple[Event, ...] = ()

    def __str__(self) -> str:
        return f"{self.transaction}: {self.text} [{self.rule}]"
