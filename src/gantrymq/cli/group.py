"""``gantry group``: consumer groups and their settings."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from gantrymq.admin import Admin
from gantrymq.admin.groups import of_system
from gantrymq.cli import show
from gantrymq.cli.cluster_options import (
    LOCAL,
    ClusterOption,
    DryRun,
    Json,
    NameServers,
    Yes,
    agreed,
    more,
    note,
    pairs,
    with_cluster,
)
from gantrymq.errors import RequestRejected
from gantrymq.message import system_topics
from gantrymq.protocol.files.groups import Group

app = typer.Typer(help="Create, list, alter and delete consumer groups.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name of the group.")]


@app.command(name="list")
def list_groups(
    all_groups: Annotated[bool, typer.Option("--all", help="Show system groups, too.")] = False,
    limit: Annotated[int, typer.Option("--max", help="Largest number of groups to show.", min=1)] = 1_000,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Show the groups that the brokers know, and how many members are online."""

    async def work(admin: Admin) -> tuple[list[dict[str, Any]], int]:
        rows = []
        found = [one for one in (await admin.groups.all()).items() if all_groups or not of_system(one[0])]
        for name, brokers in found[:limit]:
            online = await admin.consumers.connections(name)
            settings = next(iter(brokers.values()))
            rows.append(
                {
                    "group": name, "members": len(online.connection_set) if online else 0,
                    "consume": settings.consume_enable, "retries": settings.retry_max_times,
                    "brokers": sorted(brokers),
                }
            )  # fmt: skip
        return rows, max(len(found) - limit, 0)

    rows, left = with_cluster(name_servers, work, "group list")
    columns = {
        "group": "GROUP", "members": "MEMBERS ONLINE", "consume": "MAY CONSUME", "retries": "RETRIES",
        "brokers": "BROKERS",
    }  # fmt: skip
    show.answer(as_json, rows, lambda: show.table(rows, columns, "no groups; a consumer makes its own when it starts"))
    more(left)


RetryMax = Annotated[
    int | None, typer.Option("--retry-max", help="Number of retries before a message becomes a dead letter.")
]
RetryQueues = Annotated[int | None, typer.Option("--retry-queues", help="Queues of the retry topic.")]
Consume = Annotated[bool | None, typer.Option("--consume/--no-consume", help="Whether the group may read at all.")]
Broadcast = Annotated[bool | None, typer.Option("--broadcast/--no-broadcast", help="Whether members may broadcast.")]
Orderly = Annotated[
    bool | None, typer.Option("--orderly/--no-orderly", help="Whether the group consumes in order (5.x).")
]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute", "-a",
        help="name=value, such as lite.bind.topic=TOPIC or priority.factor=80; several times; name= removes it (5.x).",
    ),
]  # fmt: skip


def _changed(
    retry_max: int | None, retry_queues: int | None, consume: bool | None, broadcast: bool | None, orderly: bool | None
) -> dict[str, Any]:
    given = {
        "retry_max_times": retry_max, "retry_queue_nums": retry_queues, "consume_enable": consume,
        "consume_broadcast_enable": broadcast, "consume_message_orderly": orderly,
    }  # fmt: skip
    return {key: value for key, value in given.items() if value is not None}


@app.command()
def create(
    group: Name,
    retry_max: RetryMax = None,
    retry_queues: RetryQueues = None,
    consume: Consume = None,
    broadcast: Broadcast = None,
    orderly: Orderly = None,
    attribute: Attributes = None,
    cluster: ClusterOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Create a group on every broker, or alter it. Settings that are not given stay as the broker has them."""
    changes = _changed(retry_max, retry_queues, consume, broadcast, orderly)
    attributes = pairs(attribute or [], "--attribute", "group create")
    _put("group create", group, changes, attributes, cluster, yes, dry_run, as_json, name_servers)


@app.command()
def alter(
    group: Name,
    retry_max: RetryMax = None,
    retry_queues: RetryQueues = None,
    consume: Consume = None,
    broadcast: Broadcast = None,
    orderly: Orderly = None,
    attribute: Attributes = None,
    cluster: ClusterOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Change settings of an existing group. Settings that are not given stay as they are."""
    changes = _changed(retry_max, retry_queues, consume, broadcast, orderly)
    attributes = pairs(attribute or [], "--attribute", "group alter")
    _put("group alter", group, changes, attributes, cluster, yes, dry_run, as_json, name_servers, must_exist=True)


def _put(
    command: str,
    group: str,
    changes: dict[str, Any],
    attributes: dict[str, str],
    cluster: str | None,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    name_servers: str,
    *,
    must_exist: bool = False,
) -> None:
    """Look at the group, show what would change, ask, and change it. A broker that does not have the group makes it."""

    async def look(admin: Admin) -> dict[str, Group | None]:
        if must_exist:
            await admin.groups.get(group, cluster)
        return await admin.groups.on_brokers(group, cluster)

    known = with_cluster(name_servers, look, command)
    made_on = [broker for broker, settings in known.items() if settings is None]
    rows = [
        {"broker": broker, "key": key, "before": getattr(settings, key), "after": value}
        for broker, settings in known.items()
        for key, value in changes.items()
        if settings is not None and getattr(settings, key) != value
    ]
    rows += [
        {"broker": broker, "key": name, "before": settings.attributes.get(name), "after": value}
        for broker, settings in known.items()
        for name, value in attributes.items()
        if settings is not None and settings.attributes.get(name) != value
    ]
    if rows and not as_json:
        show.table(rows, {"broker": "BROKER", "key": "KEY", "before": "NOW", "after": "THEN"}, "")
    if not dry_run:
        if rows:
            agreed(f"Change group {group} like this?", yes, command)

        async def work(admin: Admin) -> list[str]:
            def changed(now: Group) -> Group:
                merged = {**now.attributes, **attributes}
                kept = {name: value for name, value in merged.items() if value}
                return msgspec.structs.replace(now, **changes, attributes=kept)

            return await admin.groups.put(group, changed, cluster)

        with_cluster(name_servers, work, command)

    def draw() -> None:
        if dry_run and made_on:
            typer.echo(f"group {group} would be made on {', '.join(made_on)}")
        typer.echo("nothing was done (--dry-run)" if dry_run else f"group {group} is there, on: {', '.join(known)}")

    result = {
        "group": group, "brokers": list(known), "changed": {**changes, **attributes}, "done": not dry_run,
        "made_on": made_on, "changes": rows,
    }  # fmt: skip
    show.answer(as_json, result, draw)


@app.command(name="show")
def show_group(group: Name, as_json: Json = False, name_servers: NameServers = LOCAL) -> None:
    """Show the settings, subscriptions, members and progress of a group."""

    async def work(admin: Admin) -> tuple[dict[str, Group], dict[str, Any]]:
        settings = await admin.groups.get(group)
        online = await admin.consumers.connections(group)
        try:
            progress = await admin.consumers.progress(group)
            lag, topics = progress.lag, sorted({at.queue.topic for at in progress.queues})
        except RequestRejected:  # the brokers have no progress of it; others than theirs end the command
            lag, topics = None, []
        subscriptions = {t: data.sub_string for t, data in sorted(online.subscription_table.items())} if online else {}
        members = [client.client_id for client in online.connection_set] if online else []
        state = {"members": members, "subscriptions": subscriptions, "topics": topics, "lag": lag}
        conflicts = (online.subscription_conflicts if online else None) or {}
        return settings, {**state, "model": online.message_model if online else None, "conflicts": conflicts}

    settings, state = with_cluster(name_servers, work, "group show")
    rows = [
        {
            "broker": broker, "consume": at.consume_enable, "broadcast": at.consume_broadcast_enable,
            "orderly": at.consume_message_orderly, "retry_queues": at.retry_queue_nums, "retries": at.retry_max_times,
        }
        for broker, at in sorted(settings.items())
    ]  # fmt: skip

    def draw() -> None:
        columns = {
            "broker": "BROKER", "consume": "MAY CONSUME", "broadcast": "MAY BROADCAST", "orderly": "ORDERLY",
            "retry_queues": "RETRY QUEUES", "retries": "RETRIES",
        }  # fmt: skip
        show.table(rows, columns, "no broker has it")
        reads = ", ".join(f"{topic} ({tags})" for topic, tags in state["subscriptions"].items())
        show.facts(
            {
                "members online": ", ".join(state["members"]) or "none",
                "reads": reads or ", ".join(state["topics"]) or "nothing yet",
                "messages behind": state["lag"],
            }
        )
        for topic, selectors in state["conflicts"].items():
            texts = "; ".join(f"{selector} ({', '.join(clients)})" for selector, clients in selectors.items())
            typer.echo(
                f"Members select different messages of {topic}: {texts}. The group has one of these selectors at a "
                "time, and skips what it does not select. Give members with another selector a group of their own."
            )

    show.answer(as_json, {"group": group, "brokers": rows, **state}, draw)


@app.command()
def delete(
    group: Name,
    keep_offsets: Annotated[
        bool, typer.Option("--keep-offsets", help="Keep the group's offsets on the brokers.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    cluster: ClusterOption = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Delete a group with its offsets and its retry and dead-letter topics."""
    derived = [system_topics.retry_topic(group), system_topics.dead_letter_topic(group)]

    async def look(admin: Admin) -> tuple[list[str], int]:
        brokers = sorted(await admin.groups.get(group, cluster))
        online = await admin.consumers.connections(group)
        return brokers, len(online.connection_set) if online else 0

    brokers, members = with_cluster(name_servers, look, "group delete")
    if members:
        note(f"{members} member(s) are online; their next heartbeat will make the group again")
    result = {"group": group, "brokers": brokers, "topics": derived, "members": members, "deleted": not dry_run}
    if not dry_run:
        agreed(f"Remove group {group} with its progress from {', '.join(brokers)}?", yes, "group delete")

        async def work(admin: Admin) -> None:
            await admin.groups.delete(group, keep_offsets=keep_offsets, cluster=cluster)
            there = set(await admin.topics())
            for topic in derived:
                if topic in there:
                    await admin.delete_topic(topic, cluster)

        with_cluster(name_servers, work, "group delete")
    verb = "would be" if dry_run else "is"
    show.answer(as_json, result, lambda: typer.echo(f"group {group} {verb} removed from {', '.join(brokers)}"))
