"""All rules over all facts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from gantrymq.doctor.facts import Facts
from gantrymq.doctor.findings import Finding, Severity
from gantrymq.doctor.rules import brokers, machine, names, settings, stores, transactions

RULES: Final[tuple[Callable[[Facts], Iterable[Finding]], ...]] = (
    *names.RULES,
    *brokers.RULES,
    *transactions.RULES,
    *settings.RULES,
    *stores.RULES,
    *machine.RULES,
)
"""In the order in which their findings are told, among those of one severity."""

_WORST_FIRST: Final = tuple(Severity)


def findings_of(facts: Facts) -> list[Finding]:
    """What is wrong, the worst first."""
    found = [finding for rule in RULES for finding in rule(facts)]
    return sorted(found, key=lambda finding: _WORST_FIRST.index(finding.severity))
