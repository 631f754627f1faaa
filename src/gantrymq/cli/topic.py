"""``gantry topic``: make, list, look at and remove topics."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gantrymq.cli import show
from gantrymq.cli.talk import LOCAL, ClusterOption, Json, NameServers, talk
from gantrymq.client.admin import MESSAGE_TYPES, Admin
from gantrymq.client.admin.topic_state import MESSAGE_TYPE
from gantrymq.errors import GantryError
from gantrymq.message import system_topics
from gantrymq.protocol.bodies.topics import PERM_READ, PERM_WRITE

app = typer.Typer(help="Make, list, look at and remove topics.", no_args_is_help=True)
_DERIVED = (system_topics.RETRY_PREFIX, system_topics.DEAD_LETTER_PREFIX)
Topic = Annotated[str, typer.Argument(help="Name of the topic.")]


@app.command()
def create(
    topic: Annotated[str, typer.Argument(help="Letters, digits and % | - _, at most 127.")],
    queues: Annotated[int, typer.Option(help="Queues on every broker.")] = 4,
    message_type: Annotated[
        str | None, typer.Option("--type", help=", ".join(MESSAGE_TYPES[:-1]) + "; without it: anything.")
    ] = None,
    perm: Annotated[int, typer.Option(help="6: read and write, 4: read only, 2: write only.")] = 6,
    order: Annotated[bool, typer.Option("--order", help="Mark it as an ordered topic.")] = False,
    cluster: ClusterOption = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Make a topic on every broker, or alter it."""

    async def work(admin: Admin) -> list[str]:
        await admin.create_topic(topic, queues, message_type, cluster, perm, order)
        return sorted({queue.broker_name for queue in (await admin.route(topic)).queue_datas})

    brokers = talk(name_servers, work, "topic create")
    show.answer(
        as_json,
        {"topic": topic, "queues": queues, "brokers": brokers},
        lambda: typer.echo(f"topic {topic} is there, with {queues} queues on each of: {', '.join(brokers)}"),
    )


@app.command(name="list")
def list_topics(
    all_topics: Annotated[bool, typer.Option("--all", help="Also retry and dead-letter topics.")] = False,
    details: Annotated[bool, typer.Option("--long", "-l", help="Also queues, brokers and messages.")] = False,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Show the topics that the name servers know."""

    async def work(admin: Admin) -> list[dict[str, Any]]:
        names = [name for name in sorted(await admin.topics()) if all_topics or not name.startswith(_DERIVED)]
        return [{"topic": name, **(await _summary(admin, name) if details else {})} for name in names]

    rows = talk(name_servers, work, "topic list")
    if as_json:
        show.emit_json(rows)
    elif details:
        columns = {"topic": "TOPIC", "queues": "QUEUES", "perm": "PERM", "messages": "MESSAGES", "brokers": "BROKERS"}
        show.table(rows, columns, "no topics")
    else:
        for row in rows:
            typer.echo(row["topic"])


async def _summary(admin: Admin, topic: str) -> dict[str, Any]:
    try:
        route = await admin.route(topic)
    except GantryError:
        return {"queues": None, "perm": None, "messages": None, "brokers": []}
    try:
        status = await admin.topic_state.status(topic)
        messages = sum(at.max_offset - at.min_offset for at in status.queues.values())
    except GantryError:
        messages = None  # e.g. a topic of the name server's that no broker has queues for
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

    rows, groups = talk(name_servers, work, "topic show")

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
    """Show what every queue of a topic holds."""
    state = talk(name_servers, lambda admin: admin.topic_state.status(topic), "topic status")
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
    found = talk(name_servers, lambda admin: admin.route(topic), "topic route")
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
    topic: Topic, cluster: ClusterOption = None, as_json: Json = False, name_servers: NameServers = LOCAL
) -> None:
    """Remove a topic. Its messages stay in the log until retention, and are seen again if it is made again."""
    talk(name_servers, lambda admin: admin.delete_topic(topic, cluster), "topic delete")
    show.answer(as_json, {"topic": topic, "deleted": True}, lambda: typer.echo(f"topic {topic} is removed"))
