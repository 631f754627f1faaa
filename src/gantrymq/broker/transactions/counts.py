"""Counters of what happened to transactions since the broker started."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class TransactionCounts:
    """Counters only go up. The number of open halves is the table's length."""

    halves: int = 0
    joined: int = 0
    """Retried halves that were answered with the first one's place."""
    commits: int = 0
    rollbacks: int = 0
    decided_by_check: int = 0
    """Of both, those that answered a check-back."""
    unknowns: int = 0
    repeated: int = 0
    """The same decision again; no effect."""
    conflicts: int = 0
    """Ends that contradict an earlier decision and were refused."""
    refused: int = 0
    """Ends that named no half, the wrong group, or came from a stranger."""
    failed: int = 0
    """Decisions that the store could not take; the half stayed open."""
    checks_sent: int = 0
    early_checks: int = 0
    """Of these, those about a half with decisive checkers whose immunity had not ended and whose sender was gone."""
    nobody_online: int = 0
    """Halves that were due while no producer of their group was connected."""
    parked: int = 0
    completed_at_start: int = 0
    """Transactions found without their op message when the broker started."""
    quarantined: int = 0
