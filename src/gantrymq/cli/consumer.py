"""``gantry consumer``: the progress and the members of groups, and resetting their offsets."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gantrymq.admin import Admin
from gantrymq.admin.consumers import Target
from gantrymq.admin.groups import of_system
from gantrymq.cli import show
from gantrymq.cli.cluster_options import (
    LOCAL,
    USAGE,
    DryRun,
    Json,
    NameServers,
    Yes,
    agreed,
    fail,
    more,
    note,
    sentence,
    with_cluster,
)
from gantrymq.errors import GantryError
from gantrymq.protocol.bodies.progress import queue_of

app = typer.Typer(
    help="Show the progress and the members of consumer groups, and reset their offsets.", no_args_is_help=True
)
Group = Annotated[str, typer.Argument(help="Name of the group.")]


@app.command()
def progress(
    group: Annotated[str | None, typer.Argument(help="Name of the group; default: one line for every group.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.")] = None,
    owners: Annotated[bool, typer.Option("--owners", help="Ask the members which queues they hold.")] = False,
    limit: Annotated[int, typer.Option("--max", help="Largest number of groups to show.", min=1)] = 1_000,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Show how far a group is behind, queue by queue."""
    if group is None:
        _all_progress(limit, as_json, name_servers)
    else:
        _progress(group, topic, owners, as_json, name_servers)


def _progress(group: str, topic: str | None, owners: bool, as_json: bool, name_servers: str) -> None:
    async def work(admin: Admin) -> tuple[Any, dict[Any, str], Any]:
        state = await admin.consumers.progress(group, topic)
        held, unasked = await admin.consumers.owners(group) if owners else ({}, 0)
        if unasked:
            note(f"{unasked} more members were not asked which queues they hold")
        online = await admin.consumers.connections(group)
        if not state.queues and online is None:
            await admin.groups.get(group)  # says so when there is no such group
        return state, held, online

    state, held, online = with_cluster(name_servers, work, "consumer progress")
    rows = [
        {
            "topic": at.queue.topic, "broker": at.queue.broker_name, "queue": at.queue.queue_id,
            "broker_offset": at.broker_offset, "consumer_offset": at.consumer_offset, "lag": at.lag,
            "last_done": show.when(at.last_ms), "client": held.get(at.queue),
        }
        for at in state.queues
    ]  # fmt: skip
    members = len(online.connection_set) if online is not None else 0

    def draw() -> None:
        columns = {
            "topic": "TOPIC", "broker": "BROKER", "queue": "QUEUE", "broker_offset": "BROKER OFFSET",
            "consumer_offset": "GROUP OFFSET", "lag": "LAG", "last_done": "LAST DONE WAS STORED AT",
        }  # fmt: skip
        show.table(rows, {**columns, "client": "HELD BY"} if owners else columns, "it has not read anything yet")
        typer.echo(f"{state.lag} messages behind, {state.tps:.1f} a second, {members} member(s) online")

    result = {"group": group, "lag": state.lag, "tps": state.tps, "members": members, "queues": rows}
    show.answer(as_json, result, draw)


def _all_progress(limit: int, as_json: bool, name_servers: str) -> None:
    async def work(admin: Admin) -> tuple[list[dict[str, Any]], int]:
        rows = []
        names = [name for name in await admin.groups.all() if not of_system(name)]
        for name in names[:limit]:
            online = await admin.consumers.connections(name)
            row: dict[str, Any] = {"group": name, "members": len(online.connection_set) if online else 0}
            try:
                state = await admin.consumers.progress(name)
                row |= {"lag": state.lag, "tps": state.tps}
            except GantryError as error:
                row |= {"lag": None, "tps": None, "error": str(error)}
                note(f"the progress of group {name} is unknown: {sentence(error)}")
            row["model"] = online.message_model if online else None
            rows.append(row)
        return rows, max(len(names) - limit, 0)

    rows, left = with_cluster(name_servers, work, "consumer progress")
    columns = {"group": "GROUP", "members": "MEMBERS", "lag": "LAG", "tps": "PER SECOND", "model": "MODEL"}
    show.answer(
        as_json,
        rows,
        lambda: show.table(rows, columns, "there are no groups; a consumer makes its group when it starts"),
    )
    more(left)


@app.command()
def connections(group: Group, as_json: Json = False, name_servers: NameServers = LOCAL) -> None:
    """Show the online members of a group, and its subscriptions."""
    online = with_cluster(name_servers, lambda admin: admin.consumers.connections(group), "consumer connections")
    if online is None:
        fail(f"no member of group {group!r} is online; start one, or see `gantry group list`", "consumer connections")
    members = [
        {"client": at.client_id, "address": at.client_addr, "language": at.language, "version": at.version}
        for at in online.connection_set
    ]
    reads = [
        {"topic": topic, "expression": data.sub_string, "kind": data.expression_type or "TAG"}
        for topic, data in sorted(online.subscription_table.items())
    ]

    def draw() -> None:
        show.table(
            members, {"client": "CLIENT", "address": "ADDRESS", "language": "LANGUAGE", "version": "VERSION"}, ""
        )
        show.table(reads, {"topic": "TOPIC", "expression": "SUBSCRIPTION", "kind": "KIND"}, "it subscribes to nothing")
        show.facts({"model": online.message_model, "type": online.consume_type, "starts": online.consume_from_where})

    result = {
        "group": group, "model": online.message_model, "type": online.consume_type,
        "from_where": online.consume_from_where, "members": members, "subscriptions": reads,
    }  # fmt: skip
    show.answer(as_json, result, draw)


@app.command()
def running(
    group: Group,
    client: Annotated[str | None, typer.Argument(help="Client id; default: every member.")] = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Ask the members for their queues, cached messages and rates."""

    async def work(admin: Admin) -> dict[str, Any]:
        online = await admin.consumers.connections(group)
        names = [client] if client else [at.client_id for at in online.connection_set] if online else []
        return {name: await admin.consumers.running(group, name) for name in names}

    found = with_cluster(name_servers, work, "consumer running")
    if not found:
        fail(f"no member of group {group!r} is online; start one, or see `gantry group list`", "consumer running")
    result = {
        name: {
            "properties": state.properties,
            "queues": [
                {
                    "topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id,
                    "committed": at.get("commitOffset"), "cached": at.get("cachedMsgCount"),
                    "last_pull": show.when(at.get("lastPullTimestamp")),
                    "last_consume": show.when(at.get("lastConsumeTimestamp")), "locked": at.get("locked"),
                }
                for queue, at in sorted((queue_of(key), at) for key, at in state.mq_table.items())
            ],
            "rates": state.status_table,
        }
        for name, state in found.items()
    }  # fmt: skip

    def draw() -> None:
        columns = {
            "topic": "TOPIC", "broker": "BROKER", "queue": "QUEUE", "committed": "COMMITTED", "cached": "CACHED",
            "last_pull": "LAST PULL", "last_consume": "LAST CONSUME", "locked": "LOCKED",
        }  # fmt: skip
        for name, state in result.items():
            typer.secho(name, bold=True)
            show.table(state["queues"], columns, "it holds no queues")
            rates = [
                {"topic": t, "ok": r.get("consumeOKTPS"), "failed": r.get("consumeFailedTPS"), "rt": r.get("consumeRT")}
                for t, r in sorted(state["rates"].items())
            ]
            if rates:
                shown = {"topic": "TOPIC", "ok": "DONE PER S", "failed": "FAILED PER S", "rt": "MS PER MESSAGE"}
                show.table(rates, shown, "")

    show.answer(as_json, result, draw)


@app.command()
def reset(
    group: Group,
    topic: Annotated[str, typer.Argument(help="Which topic.")],
    to: Annotated[str, typer.Option("--to", help="earliest, latest, a time (2026-01-31T12:00), or offset:NUMBER.")],
    queues: Annotated[
        list[str] | None, typer.Option("--queue", "-q", help="broker:number; may be given several times. Default: all.")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Move the offsets of a group: it then reads messages again, or skips messages.

    If members are online, the brokers tell them to move. Without members the stored offsets are changed.
    """
    command = "consumer reset"
    target = _target(to, command)
    chosen = []
    for text in queues or []:
        broker, _, number = text.rpartition(":")
        if not broker or not number.isdecimal():
            fail(f"--queue {text!r}: write it as broker:number, e.g. broker-a:0", command, USAGE)
        chosen.append((broker, int(number)))

    async def plan(admin: Admin) -> tuple[Any, int]:
        online = await admin.consumers.connections(group)
        steps = await admin.consumers.plan_reset(group, topic, target, chosen)
        return steps, len(online.connection_set) if online else 0

    steps, members = with_cluster(name_servers, plan, command)
    rows = [
        {
            "broker": step.queue.broker_name, "queue": step.queue.queue_id, "before": step.before, "after": step.after,
            "change": None if step.before is None else step.after - step.before,
        }
        for step in steps
    ]  # fmt: skip
    columns = {"broker": "BROKER", "queue": "QUEUE", "before": "NOW", "after": "THEN", "change": "CHANGE"}
    if not as_json:
        show.table(rows, columns, "")
    how = "planned"
    if not dry_run:
        agreed(f"Set group {group} in {topic} like this ({members} member(s) online)?", yes, command)
        how = with_cluster(name_servers, lambda admin: admin.consumers.reset(group, steps, target), command)
    words = {
        "planned": "nothing was done (--dry-run)",
        "members": f"{members} member(s) were told and continue there",
        "offsets": "no member is online; the stored offsets were changed, and the group will start there",
    }
    result = {"group": group, "topic": topic, "how": how, "members": members, "queues": rows}
    show.answer(as_json, result, lambda: typer.echo(words[how]))


def _target(text: str, command: str) -> Target:
    if text in ("earliest", "latest"):
        return Target(edge=text)
    kind, mark, number = text.partition(":")
    if mark and kind == "offset" and number.isdecimal():
        return Target(offset=int(number))
    time_ms = show.parse_time(text)
    if time_ms is None:
        fail(f"--to {text!r}: write earliest, latest, a time like 2026-01-31T12:00, or offset:NUMBER", command, USAGE)
    return Target(time_ms=time_ms)


@app.command()
def producers(
    group: Annotated[str | None, typer.Argument(help="Producer group; default: all.")] = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Show the producers that are online. The broker can ask them how a transaction ended."""
    found = with_cluster(name_servers, lambda admin: admin.consumers.producers(), "consumer producers").data
    rows = [
        {
            "group": name, "client": at.client_id, "address": at.remote_ip, "language": at.language,
            "version": at.version, "heard_at": show.when(at.last_update_timestamp),
        }
        for name, members in found.items()
        if group in (None, name)
        for at in members
    ]  # fmt: skip
    columns = {
        "group": "PRODUCER GROUP", "client": "CLIENT", "address": "ADDRESS", "language": "LANGUAGE",
        "heard_at": "LAST HEARTBEAT",
    }  # fmt: skip
    if group is not None and not rows:
        note(f"no producer of group {group!r} is online")
    show.answer(as_json, rows, lambda: show.table(rows, columns, "no producer is online"))
