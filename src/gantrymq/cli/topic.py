"""``gantry topic``: create, list, show and delete topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from gantrymq.admin import Admin
from gantrymq.admin.topic_changes import TopicChange, Wanted, why_refused
from gantrymq.admin.topic_state import MESSAGE_TYPE
from gantrymq.cli import show
from gantrymq.cli.cluster_options import (
    LOCAL,
    ClusterOption,
    DryRun,
    Json,
    NameServers,
    Yes,
    agreed,
    fail,
    more,
    note,
    with_cluster,
)
from gantrymq.errors import GantryError, RouteNotFound
from gantrymq.message import system_topics
from gantrymq.message.message_types import TOPIC_TYPES
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.files.topics import PERM_READ, PERM_WRITE

app = typer.Typer(help="Create, list, show and delete topics.", no_args_is_help=True)
_DERIVED = (system_topics.RETRY_PREFIX, system_topics.DEAD_LETTER_PREFIX)
Topic = Annotated[str, typer.Argument(help="Name of the topic.")]


NEW: Final = Wanted(read_queues=4, write_queues=4)
"""Settings of a new topic that are not given."""


@app.command()
def create(
    topic: Annotated[str, typer.Argument(help="Letters, digits and % | - _, at most 127.")],
    queues: Annotated[int | None, typer.Option(help="Queues on every broker. Default for a new topic: 4.")] = None,
    read_queues: Annotated[int | None, typer.Option(help="Queues that are read (readQueueNums).")] = None,
    write_queues: Annotated[int | None, typer.Option(help="Queues that are written to (writeQueueNums).")] = None,
    message_type: Annotated[
        str | None,
        typer.Option(
            "--type",
            help=", ".join(TOPIC_TYPES[:-1]) + ": other messages are refused (FIFO takes plain ones, too; MIXED takes "
            "every kind). Default for a new topic: any kind.",
        ),
    ] = None,
    perm: Annotated[int | None, typer.Option(help="6: read and write, 4: read only, 2: write only.")] = None,
    order: Annotated[bool | None, typer.Option("--order/--no-order", help="Mark it as an ordered topic.")] = None,
    hide_messages: Annotated[
        bool,
        typer.Option("--hide-messages", help="Do it even if it hides messages from groups that have not read them."),
    ] = False,
    cluster: ClusterOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Create a topic on every broker, or alter it. Settings that are not given stay as they are."""
    command = "topic create"
    wanted = Wanted(
        read_queues=queues if read_queues is None else read_queues,
        write_queues=queues if write_queues is None else write_queues,
        perm=perm, order=order, message_type=message_type,
    )  # fmt: skip

    async def look(admin: Admin) -> tuple[list[TopicChange], dict[MessageQueue, int]]:
        changes = await admin.topic_changes.plan(topic, wanted, NEW, cluster)
        return changes, await admin.topic_changes.hidden(topic, changes)

    changes, hidden = with_cluster(name_servers, look, command)
    rows = _rows(changes)
    refused = None if hide_messages else why_refused(topic, changes, hidden)
    if rows and not as_json:
        show.table(rows, _CHANGED, "")
    if refused and not dry_run:
        fail(f"{refused}. To do it nevertheless: --hide-messages", command)
    if not dry_run:
        if rows:
            agreed(f"Change topic {topic} like this?", yes, command)
        with_cluster(name_servers, lambda admin: admin.change_topic(topic, changes), command)
    brokers = [change.broker for change in changes]
    result = {
        "topic": topic, "queues": changes[0].after.write_queue_nums, "brokers": brokers, "done": not dry_run,
        "made_on": [change.broker for change in changes if change.before is None], "changes": rows,
        "hidden_messages": sum(hidden.values()), "refused": refused,
    }  # fmt: skip
    show.answer(as_json, result, lambda: typer.echo(_sentences(topic, changes, dry_run, refused)))


_CHANGED: Final = {"broker": "BROKER", "key": "KEY", "before": "NOW", "after": "THEN"}


def _rows(changes: Sequence[TopicChange]) -> list[dict[str, Any]]:
    """A row for every setting that changes on a broker that has the topic."""
    return [
        {"broker": change.broker, "key": key, "before": before, "after": after}
        for change in changes
        for key, before, after in change.differences()
    ]


def _sentences(topic: str, changes: Sequence[TopicChange], dry_run: bool, refused: str | None) -> str:
    """Print what was done, or would be done."""
    made = [change.broker for change in changes if change.before is None]
    if dry_run:
        would = [f"topic {topic} would be made on {', '.join(made)}"] if made else []
        would += [f"it would be refused without --hide-messages: {refused}"] if refused else []
        return "; ".join([*would, "nothing was done (--dry-run)"])
    by_queues: dict[int, list[str]] = {}
    for change in changes:
        by_queues.setdefault(change.after.write_queue_nums, []).append(change.broker)
    places = "; ".join(f"with {count} queues on each of: {', '.join(names)}" for count, names in by_queues.items())
    return f"topic {topic} is there, {places}"


@app.command(name="list")
def list_topics(
    all_topics: Annotated[bool, typer.Option("--all", help="Show retry and dead-letter topics, too.")] = False,
    details: Annotated[bool, typer.Option("--long", "-l", help="Show queues, brokers and messages, too.")] = False,
    limit: Annotated[int, typer.Option("--max", help="With --long: largest number of topics.", min=1)] = 1_000,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Show the topics that the name servers know."""

    async def work(admin: Admin) -> tuple[list[dict[str, Any]], int]:
        names = [name for name in sorted(await admin.topics()) if all_topics or not name.startswith(_DERIVED)]
        if not details:
            return [{"topic": name} for name in names], 0
        rows = [{"topic": name, **await _summary(admin, name)} for name in names[:limit]]
        return rows, max(len(names) - limit, 0)

    rows, left = with_cluster(name_servers, work, "topic list")
    if as_json:
        show.emit_json(rows)
    elif details:
        columns = {"topic": "TOPIC", "queues": "QUEUES", "perm": "PERM", "messages": "MESSAGES", "brokers": "BROKERS"}
        show.table(rows, columns, "no topics")
    else:
        for row in rows:
            typer.echo(row["topic"])
    more(left)


async def _summary(admin: Admin, topic: str) -> dict[str, Any]:
    try:
        route = await admin.route(topic)
    except RouteNotFound:
        return {"queues": None, "perm": None, "messages": None, "brokers": []}
    try:
        status = await admin.topic_state.status(topic)
        messages = sum(at.max_offset - at.min_offset for at in status.queues.values())
    except GantryError as error:
        messages = None
        if error.retryable:  # not a topic of the name server's that no broker has queues for
            note(f"how many messages {topic} has is unknown: {error}")
    return {
        "queues": sum(max(data.read_queue_nums, data.write_queue_nums) for data in route.queue_datas),
        "perm": "/".join(sorted({_perm(data.perm) for data in route.queue_datas})),
        "messages": messages,
        "brokers": sorted(data.broker_name for data in route.queue_datas),
    }


def _perm(perm: int) -> str:
    return ("r" if perm & PERM_READ else "-") + ("w" if perm & PERM_WRITE else "-")


@app.command(name="show")
def show_topic(topic: Topic, as_json: Json = False, name_servers: NameServers = LOCAL) -> None:
    """Show the settings of a topic on every broker, and which groups read it."""

    async def work(admin: Admin) -> tuple[list[dict[str, Any]], list[str]]:
        configs = await admin.topic_state.configs(topic)
        rows = [
            {
                "broker": broker, "type": (config.attributes or {}).get(MESSAGE_TYPE, "any"),
                "read_queues": config.read_queue_nums, "write_queues": config.write_queue_nums,
                "perm": _perm(config.perm), "order": config.order, "attributes": config.attributes or {},
            }
            for broker, config in configs.items()
        ]  # fmt: skip
        return rows, await admin.groups.reading(topic)

    rows, groups = with_cluster(name_servers, work, "topic show")

    def draw() -> None:
        columns = {
            "broker": "BROKER", "type": "TYPE", "read_queues": "READ QUEUES", "write_queues": "WRITE QUEUES",
            "perm": "PERM", "order": "ORDERED",
        }  # fmt: skip
        show.table(rows, columns, "no broker has it")
        typer.echo("read by: " + (", ".join(groups) or "no group yet"))

    show.answer(as_json, {"topic": topic, "brokers": rows, "groups": groups}, draw)


@app.command()
def status(topic: Topic, as_json: Json = False, name_servers: NameServers = LOCAL) -> None:
    """Show how many messages every queue of a topic holds."""
    state = with_cluster(name_servers, lambda admin: admin.topic_state.status(topic), "topic status")
    rows = [
        {
            "broker": queue.broker_name, "queue": queue.queue_id, "min_offset": at.min_offset,
            "max_offset": at.max_offset, "messages": at.max_offset - at.min_offset,
            "last_message": show.when(at.last_update_timestamp),
        }
        for queue, at in state.queues.items()
    ]  # fmt: skip

    def draw() -> None:
        columns = {
            "broker": "BROKER", "queue": "QUEUE", "min_offset": "MIN OFFSET", "max_offset": "MAX OFFSET",
            "messages": "MESSAGES", "last_message": "LAST MESSAGE",
        }  # fmt: skip
        show.table(rows, columns, "no queues")
        rate = "" if state.put_tps is None else f", {state.put_tps:.1f} a second now"
        typer.echo(f"{sum(row['messages'] for row in rows)} messages{rate}")  # type: ignore[misc]

    show.answer(as_json, {"topic": topic, "put_tps": state.put_tps, "queues": rows}, draw)


@app.command()
def route(topic: Topic, as_json: Json = False, name_servers: NameServers = LOCAL) -> None:
    """Show where clients find a topic: brokers, addresses, queues."""
    found = with_cluster(name_servers, lambda admin: admin.route(topic), "topic route")
    places = {broker.broker_name: broker for broker in found.broker_datas}
    rows = [
        {
            "broker": data.broker_name,
            "cluster": places[data.broker_name].cluster if data.broker_name in places else None,
            "addresses": {
                str(number): address
                for number, address in sorted(
                    places[data.broker_name].broker_addrs.items() if data.broker_name in places else ()
                )
            },
            "read_queues": data.read_queue_nums,
            "write_queues": data.write_queue_nums,
            "perm": _perm(data.perm),
        }
        for data in sorted(found.queue_datas, key=lambda data: data.broker_name)
    ]

    def draw() -> None:
        columns = {
            "broker": "BROKER", "cluster": "CLUSTER", "addresses": "ADDRESSES (0: master)",
            "read_queues": "READ QUEUES", "write_queues": "WRITE QUEUES", "perm": "PERM",
        }  # fmt: skip
        shown = [
            {**row, "addresses": ", ".join(f"{number}={address}" for number, address in row["addresses"].items())}  # type: ignore[union-attr]
            for row in rows
        ]
        show.table(shown, columns, "no broker has it")

    show.answer(as_json, {"topic": topic, "order_conf": found.order_topic_conf, "brokers": rows}, draw)


@app.command()
def delete(
    topic: Topic,
    cluster: ClusterOption = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Delete a topic with its messages. A topic that is created again with the same name is empty."""
    command = "topic delete"

    async def look(admin: Admin) -> tuple[list[dict[str, Any]], list[str]]:
        rows = []
        for change in await admin.topic_changes.plan(topic, Wanted(), NEW, cluster):
            if change.before is not None:
                stats = (await admin.topic_state.stats(topic, change.address)).by_queue()
                messages = sum(at.max_offset - at.min_offset for at in stats.values())
                rows.append({"broker": change.broker, "queues": len(stats), "messages": messages})
        if not rows and topic not in await admin.topics():
            raise RouteNotFound(topic, "no broker has it")
        return rows, await admin.groups.reading(topic) if rows else []

    rows, groups = with_cluster(name_servers, look, command)
    places = ", ".join(row["broker"] for row in rows) or "the name servers, which alone know it"
    count = sum(row["messages"] for row in rows)
    if not as_json:
        show.table(rows, {"broker": "BROKER", "queues": "QUEUES", "messages": "MESSAGES"}, "no broker has it")
        typer.echo("read by: " + (", ".join(groups) or "no group"))
    if not dry_run:
        agreed(f"Remove topic {topic} with its {count} message(s) from {places}?", yes, command)
        with_cluster(name_servers, lambda admin: admin.delete_topic(topic, cluster), command)
    verb = "would be" if dry_run else "is"
    result = {"topic": topic, "deleted": not dry_run, "brokers": rows, "messages": count, "groups": groups}
    show.answer(as_json, result, lambda: typer.echo(f"topic {topic} {verb} removed from {places}"))
