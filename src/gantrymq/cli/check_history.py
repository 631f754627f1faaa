"""``gantry check-history``: judge a recorded history, of our brokers or of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gantrymq.simulation.judging.checker import Violation, check
from gantrymq.simulation.judging.history import decode, encode


def check_history(
    file: Annotated[
        Path, typer.Argument(help="A file of events, one JSON object a line; docs/simulation.md describes the format.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print violations as JSON, one a line.")] = False,
    evidence: Annotated[bool, typer.Option(help="Show the events of each violation.")] = True,
) -> None:
    """Judge what a cluster did, ours or Apache's, by the rules for transactions and for consumer groups.

    Exit status 1 when a promise was broken, 2 when the file cannot be read as a history.
    """
    try:
        events = decode(file.read_text("utf-8"))
        found = check(events)
    except (OSError, ValueError, KeyError) as error:
        typer.echo(f"{file} is no history: {error}", err=True)
        raise typer.Exit(2) from error
    for violation in found:
        typer.echo(_json(violation) if as_json else str(violation))
        if evidence and not as_json:
            typer.echo("".join(f"    {line}\n" for line in encode(violation.evidence).splitlines()), nl=False)
    if not as_json:
        typer.echo(f"{len(events)} events, {len(found)} violations")
    raise typer.Exit(1 if found else 0)


def _json(violation: Violation) -> str:
    return json.dumps(
        {
            "rule": violation.rule, "transaction": violation.transaction, "text": violation.text,
            "evidence": violation.evidence,
        },
    )  # fmt: skip
