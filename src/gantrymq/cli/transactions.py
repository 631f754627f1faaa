"""``gantry transactions``: show undecided transactions, explain them, and decide them in the name of a person."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from gantrymq.admin import Admin
from gantrymq.admin.audit import AuditFile
from gantrymq.admin.decisions import Action, Decisions, the_one
from gantrymq.admin.transaction_search import Wanted
from gantrymq.admin.transactions import Place
from gantrymq.cli import show
from gantrymq.cli.audited import Audit, Why, audit_path
from gantrymq.cli.cluster_options import (
    LOCAL,
    USAGE,
    BrokerOption,
    DryRun,
    Json,
    NameServers,
    Yes,
    agreed,
    fail,
    with_cluster,
)
from gantrymq.errors import ConfigError
from gantrymq.runtime.clock import SystemClock
from gantrymq.transactions.rules.states import State

app = typer.Typer(help="Show undecided transactions, explain them, and decide them.", no_args_is_help=True)
Id = Annotated[str, typer.Argument(help="Transaction id (the message's unique key), or offset message id of its half.")]
FIRST_SHOWN: Final = 12
LAST_SHOWN: Final = 20
"""Number of events that are shown of one transaction, when there are many."""
_COLUMNS = {
    "id": "TRANSACTION", "state": "STATE", "group": "PRODUCER GROUP", "topic": "TOPIC", "age": "AGE",
    "checks": "CHECKS", "producers": "PRODUCERS ONLINE", "broker": "BROKER",
}  # fmt: skip


def fields(place: Place) -> dict[str, Any]:
    """A transaction for JSON."""
    found = place.transaction
    half, op, final = found.half, found.op, found.final
    return {
        "id": found.transaction_id, "state": found.state.text, "group": found.group, "topic": found.topic,
        "queue": found.queue_id, "broker": place.broker, "address": place.address, "age_ms": found.age_ms,
        "born_at": show.when(half.born_ms), "born_host": half.born_host, "stored_at": show.when(half.stored_ms),
        "keys": half.keys, "tags": half.tags, "checks": found.checks, "producers_online": found.producers,
        "next_check_not_before": show.when(found.next_check_ms), "half_offset_message_id": half.message_id,
        "half_queue_offset": half.queue_offset, "half_log_offset": half.log_offset, "copies": found.copies,
        "op": None if op is None else {
            "queue_offset": op.queue_offset, "stored_at": show.when(op.stored_ms), "says": op.decision.name.lower(),
        },
        "final": None if final is None else {
            "topic": final.topic, "queue": final.queue_id, "queue_offset": final.queue_offset,
            "stored_at": show.when(final.stored_ms), "offset_message_id": final.message_id,
        },
        "why": found.why, "advice": found.advice,
    }  # fmt: skip


@app.command(name="list")
def list_transactions(
    group: Annotated[str | None, typer.Option("--group", "-g", help="Only of this producer group.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Only for this topic.")] = None,
    state: Annotated[str | None, typer.Option("--state", help="open or parked; default: both.")] = None,
    broker: BrokerOption = None,
    limit: Annotated[
        int, typer.Option("--max", help="Largest number of transactions to show, the oldest first.", min=1)
    ] = 100,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Show the undecided transactions, open and parked ones, the oldest first."""
    command = "transactions list"
    if state not in (None, State.OPEN.text, State.PARKED.text):
        fail(f"--state {state!r}: write open or parked", command, USAGE)
    errors = Console(stderr=True)
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )
    with bar:
        task = bar.add_task("reading halves and op messages ...", total=None)
        count = 0

        def read(records: int) -> None:
            nonlocal count
            count += records
            bar.update(task, description=f"reading halves and op messages ... {count}")

        # One more than is shown: then it is known that there are more, and nothing else is looked up for it.
        wanted = Wanted(next((one for one in State if one.text == state), None), group, topic, count=limit + 1)
        chosen = with_cluster(name_servers, lambda admin: admin.transactions.undecided(broker, read, wanted), command)
    rows = [{**fields(place), "age": show.ago(place.transaction.age_ms)} for place in chosen[:limit]]

    def draw() -> None:
        show.table(
            [{**row, "producers": row["producers_online"]} for row in rows], _COLUMNS, "no undecided transactions"
        )
        if len(chosen) > limit:
            typer.echo("... and more (--max)")
        if rows:
            typer.echo("`gantry transactions explain ID` says why one is undecided and what to do")

    show.answer(as_json, rows, draw)


@app.command(name="show")
def show_transaction(
    transaction: Id, broker: BrokerOption = None, as_json: Json = False, name_servers: NameServers = LOCAL
) -> None:
    """Show everything that is known of a transaction."""
    rows = [fields(place) for place in _find(transaction, broker, name_servers, "transactions show")]

    def draw() -> None:
        for row in rows:
            shown = {name.replace("_", " "): value for name, value in row.items()}
            shown["age"] = show.ago(shown.pop("age ms"))
            for name in ("op", "final"):
                if row[name] is not None:
                    shown[name] = ", ".join(f"{part.replace('_', ' ')} {value}" for part, value in row[name].items())
            show.facts(shown)
            typer.echo("")

    show.answer(as_json, rows, draw)


@app.command()
def explain(
    transaction: Id,
    broker: BrokerOption = None,
    every: Annotated[
        bool, typer.Option("--all", help=f"All events; without it {FIRST_SHOWN + LAST_SHOWN} of many.")
    ] = False,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Show what happened to a transaction, event by event, why it is undecided, and what can be done."""
    command = "transactions explain"
    explained = with_cluster(name_servers, lambda admin: admin.explanations.of(transaction, broker), command)
    if not explained:
        _not_found(transaction, command)

    def draw() -> None:
        for one in explained:
            _draw_explanation(one, every)

    show.answer(as_json, explained, draw)


def _draw_explanation(one: dict[str, Any], every: bool) -> None:
    """Print the state, the events, the reason and the advice, in this order."""
    typer.secho(f"{show.safe(one['id'])} is {one['state']}", bold=True)
    place = f"topic {one['topic']}, producer group {one['group']}, broker {one['broker']} ({one['address']})"
    typer.echo(f"  {show.safe(place)}, {show.ago(one['age_ms'])} old")
    events = one["events"]
    hidden = 0 if every else max(len(events) - FIRST_SHOWN - LAST_SHOWN, 0)
    first = events[0]["at_ms"] if events else 0
    rows = [
        {"time": show.clock_time(event["at_ms"]), "after": show.since(event["at_ms"] - first), **event}
        for event in (events if not hidden else events[:FIRST_SHOWN] + events[len(events) - LAST_SHOWN :])
    ]
    if hidden:
        rows.insert(FIRST_SHOWN, {"time": "...", "what": f"... {hidden} more (--all) ..."})
    show.table(rows, {"time": "TIME", "after": "AFTER", "what": "EVENT", "cause": "CAUSE"}, "no event is known")
    typer.echo(f"  Why: {show.safe(one['why'])}")
    if one["next_check_in_ms"] is not None:
        typer.echo(f"  Next check: in {show.ago(one['next_check_in_ms'])}, when a producer is online that can be asked")
    if one["advice"]:
        typer.echo(f"  What to do: {show.safe(one['advice'])}")
    for note in one["notes"]:
        typer.echo(f"  Note: {show.safe(note)}")
    typer.echo("")


@app.command()
def commit(
    transaction: Id,
    why: Why = None,
    broker: BrokerOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    audit: Audit = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Commit an open transaction: consumers get its message. This cannot be undone."""
    _decide(Action.COMMIT, transaction, why, broker, yes, dry_run, audit, as_json, name_servers)


@app.command()
def rollback(
    transaction: Id,
    why: Why = None,
    broker: BrokerOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    audit: Audit = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Roll an open transaction back: consumers never see its message. This cannot be undone."""
    _decide(Action.ROLLBACK, transaction, why, broker, yes, dry_run, audit, as_json, name_servers)


@app.command()
def resume(
    transaction: Id,
    why: Why = None,
    broker: BrokerOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    audit: Audit = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Open a parked transaction again: its producers are asked again, and it can be committed or rolled back."""
    _decide(Action.RESUME, transaction, why, broker, yes, dry_run, audit, as_json, name_servers)


_QUESTIONS = {
    Action.COMMIT: "Commit {id}, so that consumers of {topic} get its message?",
    Action.ROLLBACK: "Roll {id} back, so that nobody ever gets its message?",
    Action.RESUME: "Open {id} again, so that producers of {group} are asked about it?",
}


def _decide(
    action: Action,
    transaction: str,
    why: str | None,
    broker: str | None,
    yes: bool,
    dry_run: bool,
    audit: Path | None,
    as_json: bool,
    name_servers: str,
) -> None:
    """Look at the transaction, ask the person, and carry the decision out with a record of it."""
    command = f"transactions {action}"
    try:
        place = the_one(_find(transaction, broker, name_servers, command), action)
    except ConfigError as error:
        fail(str(error), command)
    found = place.transaction
    if not as_json:
        show.facts({"transaction": found.transaction_id, "group": found.group, "topic": found.topic,
                    "broker": f"{place.broker} ({place.address})", "age": show.ago(found.age_ms),
                    "why it is undecided": found.why})  # fmt: skip
    if not dry_run:
        agreed(_QUESTIONS[action].format(id=found.transaction_id, topic=found.topic, group=found.group), yes, command)
        if not why:
            why = "" if yes else str(typer.prompt("Why (for the audit file)", err=True))
        if not why.strip():
            fail("give the reason, for the audit file: --why 'ticket 4711: the order was paid'", command, USAGE)
    path = audit_path(audit, command)
    result = {**fields(place), "action": action, "dry_run": dry_run, "audit": str(path)}

    async def work(admin: Admin) -> str:
        decisions = Decisions(admin.transactions, AuditFile(path, SystemClock()), name_servers)
        return await decisions.carry_out(place, action, why or "", dry_run=dry_run)

    outcome = with_cluster(name_servers, work, command)
    done = "nothing was done (--dry-run)" if dry_run else f"{found.transaction_id} is {outcome}; recorded in {path}"
    show.answer(as_json, {**result, "outcome": outcome}, lambda: typer.echo(done))


def _find(transaction: str, broker: str | None, name_servers: str, command: str) -> list[Place]:
    places = with_cluster(name_servers, lambda admin: admin.transactions.find(transaction, broker), command)
    if not places:
        _not_found(transaction, command)
    return places


def _not_found(transaction: str, command: str) -> NoReturn:
    fail(
        f"no broker has a transaction {transaction!r}: it is older than the log, or the id is another one; "
        "`gantry transactions list` shows the undecided ones",
        command,
    )
