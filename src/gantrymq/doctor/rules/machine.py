"""This process: its packages and its limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gantrymq.doctor.facts import Facts
from gantrymq.doctor.findings import Finding, Kind, Severity

FEW_FILES: Final = 1_024
"""As many as ``gantry server`` warns about."""


def requirements_unmet(facts: Facts) -> Iterator[Finding]:
    """Installed packages of another version than this one was made for."""
    if facts.machine is not None and facts.machine.unmet:
        yield Finding(
            "requirements-unmet", Severity.WARNING, Kind.MACHINE, "packages",
            f"Packages of this environment have a version that GantryMQ {facts.machine.version} was not made for: "
            f"{'; '.join(facts.machine.unmet)}.",
            "Install GantryMQ again into this environment (pip install --upgrade gantrymq), or into one of its own.",
        )  # fmt: skip


def few_open_files(facts: Facts) -> Iterator[Finding]:
    """A server that is started from here has no more."""
    if facts.machine is not None and 0 < facts.machine.open_files < FEW_FILES:
        yield Finding(
            "few-open-files", Severity.NOTE, Kind.MACHINE, "open files",
            f"A process that is started here may have {facts.machine.open_files} files and connections open; a broker "
            "needs one for each client and more for its files.",
            "Raise the limit before you start a server here: ulimit -n, or LimitNOFILE of a service.",
        )  # fmt: skip


RULES: Final = (requirements_unmet, few_open_files)
