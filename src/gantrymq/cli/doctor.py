"""``gantry doctor``: what is wrong, and what to do."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from gantrymq.admin import Admin
from gantrymq.cli import show
from gantrymq.cli.cluster_options import CALL_TIMEOUT_MS, FAILED, LOCAL, USAGE, Json, NameServers, guarded
from gantrymq.doctor import Facts, Finding, Severity, findings_of, look_at_cluster
from gantrymq.doctor.machine import look_at_machine, look_at_store, stores_here

COULD_NOT_LOOK: Final = USAGE
_COLORS: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def doctor(
    store: Annotated[
        list[str] | None,
        typer.Option("--store", help="Look at this store directory, too. Stores of running brokers here are found."),
    ] = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Find what is wrong with a cluster and this machine, and say what to do. It changes nothing.

    Exit status: 0 nothing is wrong (notes may be there), 1 errors or warnings, 2 something could not be looked at and
    nothing else is wrong.
    """

    async def look() -> Facts:
        async with Admin(name_servers, call_timeout_ms=CALL_TIMEOUT_MS) as admin:
            cluster = await look_at_cluster(admin)
        stores = stores_here(cluster)
        known = {one.path for one in stores}
        stores += [look_at_store(path) for path in dict.fromkeys(store or ()) if path not in known]
        return Facts(cluster, look_at_machine(), tuple(stores))

    facts = guarded(lambda: asyncio.run(look()), "doctor")
    findings = findings_of(facts)
    status = status_of(findings)
    value = {
        "status": status,
        "findings": [as_value(finding) for finding in findings],
        "facts": dataclasses.asdict(facts),
    }
    show.answer(as_json, value, lambda: _draw(facts, findings))
    raise typer.Exit(status)


def status_of(findings: list[Finding]) -> int:
    """The exit status. Notes count for nothing: they may be meant so."""
    bad = [finding for finding in findings if finding.severity is not Severity.NOTE]
    if not bad:
        return 0
    return COULD_NOT_LOOK if all(finding.unseen for finding in bad) else FAILED


def as_value(finding: Finding) -> dict[str, Any]:
    """For JSON."""
    return {
        "rule": finding.rule, "severity": finding.severity.value, "kind": finding.kind.value,
        "subject": finding.subject, "sentence": finding.sentence, "advice": finding.advice, "unseen": finding.unseen,
    }  # fmt: skip


def _draw(facts: Facts, findings: list[Finding]) -> None:
    console = show.console()
    for text in looked_at(facts):
        console.print(Text(show.safe(text)), soft_wrap=True)
    for finding in findings:
        head = Text(f"\n{finding.severity.value:8}", style=_COLORS[finding.severity])
        head.append(show.safe(finding.sentence), style="default")
        console.print(head, soft_wrap=True)
        console.print(Text(f"        {show.safe(finding.advice)}", style="dim"), soft_wrap=True)
    counts = {kind: sum(finding.severity is kind for finding in findings) for kind in Severity}
    summary = ", ".join(f"{count} {kind.value}{'' if count == 1 else 's'}" for kind, count in counts.items() if count)
    console.print(Text(f"\n{summary or 'Nothing is wrong.'}", style="bold"), soft_wrap=True)


def looked_at(facts: Facts) -> list[str]:
    """What was looked at, a line for each."""
    lines = []
    for server in facts.cluster.name_servers:
        lines.append(f"name server {server.address}: {'does not answer' if server.error else 'answers'}")
    for broker in facts.cluster.brokers:
        what = f"broker {broker.name} at {broker.address}" + (
            f" (replica {broker.broker_id})" if broker.broker_id else ""
        )
        if broker.error:
            lines.append(f"{what}: does not answer")
            continue
        parts = [broker.version or "version unknown"]
        if broker.disk_ratio is not None:
            parts.append(f"disk {broker.disk_ratio:.0%} full")
        if broker.clock_ahead_ms is not None:
            parts.append(f"clock {broker.clock_ahead_ms / 1000:+.1f} s (±{broker.clock_doubt_ms / 1000:.1f} s)")
        parts += [
            f"group {group.group}: {group.open} open, "
            + ("producers unknown" if group.producers_online is None else f"{group.producers_online} can decide")
            for group in broker.open_groups
        ]
        lines.append(f"{what}: {', '.join(parts)}")
    for store in facts.stores:
        kind = f", {store.file_system}" if store.file_system else ""
        seen = f"{store.free_bytes / 2**30:.1f} GiB free{kind}" if store.exists and store.is_directory else "not there"
        lines.append(f"store {store.path}: {store.error or seen}")
    if (here := facts.machine) is not None:
        complete = [extra.name for extra in here.extras if not extra.missing]
        lines.append(f"this program: gantry {here.version}, {here.core}, {here.python}, user {here.user}")
        lines.append(f"extras that are complete: {', '.join(complete) or 'none'}")
    return lines
