"""A change that leaves a line in the audit file before it is made, and one afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gantrymq.admin import Admin
from gantrymq.admin.audit import AuditFailed, AuditFile, Phase, default_path
from gantrymq.cli import show
from gantrymq.cli.cluster_options import USAGE, agreed, fail, guarded, sentence, with_cluster
from gantrymq.errors import GantryError, TimedOut, Unreachable
from gantrymq.runtime.clock import SystemClock

Why = Annotated[str | None, typer.Option("--why", "-w", help="The reason; it is written to the audit file.")]
Audit = Annotated[
    Path | None,
    typer.Option("--audit", help="The audit file. Default: GANTRY_AUDIT, else ~/.local/state/gantry/audit.jsonl."),
]


def audit_path(given: Path | None, command: str) -> Path:
    """Where the audit file is. A user without a home directory must say it."""
    return guarded(lambda: given or default_path(), command)


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be done, in the words of the audit file."""

    command: str
    action: str
    question: str
    facts: dict[str, Any]
    """Never a secret, and none of the names that every line has (``admin.audit``)."""


@dataclass(frozen=True, slots=True)
class Consent:
    """What the person said about it on the command line."""

    why: str | None
    yes: bool
    dry_run: bool
    audit: Path | None
    as_json: bool
    name_servers: str


def carry_out(change: Change, consent: Consent, work: Callable[[Admin], Awaitable[list[str]]]) -> None:
    """Ask the person, write the audit file, act, and write the outcome. ``work`` returns the names of the servers where
    it was done."""
    command, why = change.command, consent.why
    if not consent.dry_run:
        agreed(change.question, consent.yes, command)
        if not why:
            why = "" if consent.yes else str(typer.prompt("Why (for the audit file)", err=True))
        if not why.strip():
            fail("give the reason, for the audit file: --why 'ticket 4711: a new service'", command, USAGE)
    path = audit_path(consent.audit, command)
    decision = AuditFile(path, SystemClock()).decision(
        action=change.action, why=why or "", dry_run=consent.dry_run, **change.facts,
        name_servers=consent.name_servers,
    )  # fmt: skip
    result = {"action": change.action, **change.facts, "dry_run": consent.dry_run, "audit": str(path)}
    if consent.dry_run:
        guarded(lambda: decision.note(Phase.DRY_RUN), command)
        show.answer(consent.as_json, result, lambda: typer.echo("nothing was done (--dry-run)"))
        return
    guarded(lambda: decision.note(Phase.INTENDED), command)

    async def noted(admin: Admin) -> list[str]:
        try:
            return await work(admin)
        except (TimedOut, Unreachable) as error:
            decision.note(Phase.UNKNOWN, sentence(error))
            raise
        except GantryError as error:
            decision.note(Phase.REFUSED, sentence(error))
            raise

    servers = with_cluster(consent.name_servers, noted, command)
    outcome = f"done at {', '.join(servers)}"
    try:
        decision.note(Phase.DONE, outcome)
    except AuditFailed as error:
        fail(f"it is {outcome}, but this could not be written to the audit file: {error}", command)
    show.answer(consent.as_json, {**result, "servers": servers}, lambda: typer.echo(f"{outcome}; recorded in {path}"))
