"""``gantry message``: send, find, show and follow messages."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from gantrymq.admin import Admin
from gantrymq.admin.messages import FOREVER_MS
from gantrymq.admin.traces import TraceSteps
from gantrymq.cli import show
from gantrymq.cli.cluster_options import LOCAL, USAGE, Json, NameServers, fail, guarded, note, pairs, with_cluster
from gantrymq.cli.message_reading import Lines, Reading, fields, print_queues
from gantrymq.errors import RequestRejected
from gantrymq.message import system_topics
from gantrymq.message.message import Message, MessageView
from gantrymq.message.queues import MessageQueue

app = typer.Typer(help="Send, find, show and follow messages.", no_args_is_help=True)
TopicOption = Annotated[str | None, typer.Option("--topic", "-t", help="Topic of the message.")]
BodyBytes = Annotated[int, typer.Option("--body-bytes", help="How much of a body is shown.", min=0)]
Tags = Annotated[str, typer.Option("--tags", help="Only these: 'A || B'.")]


@app.command()
def send(
    topic: Annotated[str, typer.Argument(help="Where to.")],
    body: Annotated[str | None, typer.Argument(help="The body as text; '-' or nothing: standard input.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="The body is the content of this file.")] = None,
    tags: Annotated[str | None, typer.Option("--tags", help="One tag.")] = None,
    keys: Annotated[
        str | None, typer.Option("--keys", help="Keys by which the message can be found, separated by blanks.")
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", "-p", help="name=value; may be given several times.")
    ] = None,
    delay_level: Annotated[int, typer.Option(help="Delay level 1 to 18: deliver the message later.")] = 0,
    priority: Annotated[int | None, typer.Option(help="0 or more, for a topic of type PRIORITY.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="broker:number, e.g. broker-a:0.")] = None,
    group: Annotated[str, typer.Option("--group", "-g", help="Producer group.")] = "gantry-cli",
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Send one message."""
    content = _body(body, file)
    user = pairs(properties or [], "--property", "message send")
    target = None if queue is None else MessageQueue(topic, *_place(queue, "message send"))

    def work() -> Any:
        from gantrymq import Producer

        message = Message(
            topic, content, tags=tags, keys=keys, properties=user, delay_level=delay_level, priority=priority
        )
        with Producer(group, name_servers=name_servers) as producer:
            return producer.send(message, target)

    sent = guarded(work, "message send")
    result = {
        "status": sent.status.name, "message_id": sent.message_id, "offset_message_id": sent.offset_message_id,
        "broker": sent.queue.broker_name, "queue": sent.queue.queue_id, "queue_offset": sent.queue_offset,
    }  # fmt: skip
    show.answer(as_json, result, lambda: show.facts({key.replace("_", " "): value for key, value in result.items()}))


def _body(body: str | None, file: Path | None) -> bytes:
    if body is not None and file is not None:
        fail("give the body as an argument or by --file, not both", "message send", USAGE)
    if file is not None:
        try:
            return file.read_bytes()
        except OSError as error:
            fail(f"cannot read {file}: {error.strerror}", "message send")
    if body is None or body == "-":
        return sys.stdin.buffer.read()
    return body.encode()


def _place(text: str, command: str) -> tuple[str, int]:
    broker, mark, number = text.rpartition(":")
    if not mark or not broker or not number.isdecimal():
        fail(f"--queue {text!r}: write it as broker:number, e.g. broker-a:0", command, USAGE)
    return broker, int(number)


@app.command(name="show")
def show_message(
    message_id: Annotated[str | None, typer.Argument(help="Unique key, or offset message id.")] = None,
    topic: TopicOption = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="One of the message's KEYS.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="broker:number; with --offset.")] = None,
    offset: Annotated[int | None, typer.Option("--offset", "-o", help="Queue offset; with --queue.")] = None,
    trace: Annotated[bool, typer.Option("--trace/--no-trace", help="Show which groups consumed it.")] = True,
    limit: Annotated[int, typer.Option("--max", help="Largest number of messages to show.", min=1)] = 10,
    body_bytes: BodyBytes = show.BODY_SHOWN_BYTES,
    save_body: Annotated[Path | None, typer.Option(help="Write the body, unchanged, to this file.")] = None,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Show a message with its body, and which groups consumed it.

    Name it by its offset message id alone, by its unique key or --key with --topic, or with --topic, --queue and
    --offset.
    """
    command = "message show"
    find = _finder(message_id, topic, key, queue, offset, limit, command)

    async def work(admin: Admin) -> list[tuple[MessageView, list[dict[str, Any]]]]:
        shown = []
        for message in (await find(admin))[:limit]:
            readers: list[dict[str, Any]] = []
            if trace:
                try:
                    groups, left = await admin.messages.readers(message)
                    readers = [
                        {"group": at.group, "state": str(at.state), "consumer_offset": at.consumer_offset}
                        for at in groups
                    ]
                    if left:
                        note(f"{left} more groups read the topic and were not asked about")
                except RequestRejected as error:
                    note(f"it could not be found out which groups consumed it: {error}")
            shown.append((message, readers))
        return shown

    found = with_cluster(name_servers, work, command)
    if not found:
        hint = "" if topic is not None else "; for a unique key, say --topic as well"
        fail(f"there is no such message{hint}", command)
    if save_body is not None:
        save_body.write_bytes(found[0][0].body)
    if as_json:
        show.emit_json([{**fields(message), "readers": readers} for message, readers in found])
        return
    for message, readers in found:
        _draw(message, readers, body_bytes, trace)


def _finder(
    message_id: str | None,
    topic: str | None,
    key: str | None,
    queue: str | None,
    offset: int | None,
    limit: int,
    command: str,
) -> Callable[[Admin], Awaitable[list[MessageView]]]:
    """The search that the arguments ask for. Ends the command when they name no message, or more than one."""
    ways = [message_id is not None, key is not None, queue is not None or offset is not None]
    if sum(ways) != 1 or (ways[2] and (queue is None or offset is None)):
        fail("say which message: an ID, or --key, or --queue with --offset", command, USAGE)
    if topic is None and message_id is None:
        fail("say in which topic: --topic", command, USAGE)
    place = None if queue is None else MessageQueue(topic or "", *_place(queue, command))

    async def find(admin: Admin) -> list[MessageView]:
        if place is not None:
            found = await admin.messages.at(place, offset or 0)
            return [found] if found is not None else []
        if key is not None:
            return await admin.messages.by_key(topic or "", key, count=max(limit, 64))
        by_key = await admin.messages.by_unique_key(topic, message_id or "") if topic is not None else []
        if by_key or message_id is None:
            return by_key
        found = await admin.messages.by_place_id(message_id)
        return [found] if found is not None else []

    return find


def _draw(message: MessageView, readers: list[dict[str, Any]], body_bytes: int, trace: bool) -> None:
    values = fields(message)
    del values["body"], values["body_encoding"]
    user = values.pop("properties")
    values["properties"] = ", ".join(f"{name}={value}" for name, value in sorted(user.items()))
    show.facts({name.replace("_", " "): value for name, value in values.items()})
    typer.echo("body")
    typer.echo(show.body_text(message.body, body_bytes))
    if trace:
        columns = {"group": "GROUP", "state": "STATE", "consumer_offset": "GROUP IS AT"}
        show.table(readers, columns, "no group reads this topic yet")


@app.command()
def trace(
    word: Annotated[str, typer.Argument(metavar="ID_OR_KEY", help="Unique key of a message, or one of its KEYS.")],
    trace_topic: Annotated[str, typer.Option("--trace-topic", help="Where clients record.")] = system_topics.TRACE,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Show what clients recorded of a message: who sent it, who consumed it, how long it took.

    Clients record when they are made with trace=True (Java: enableMsgTrace).
    """

    async def work(admin: Admin) -> TraceSteps:
        return await admin.traces.of(word, trace_topic)

    found = with_cluster(name_servers, work, "message trace")
    if found.more:
        note("there are more records than are read at once; search for one message by its id")
    if found.unreadable:
        note(f"records that could not be read and are left out: {found.unreadable}")
    rows = [
        {**msgspec.structs.asdict(step), "at": show.when(step.at_ms), "outcome": step.outcome} for step in found.steps
    ]
    columns = {"at": "TIME", "happened": "STEP", "outcome": "", "group": "GROUP", "client": "CLIENT",
               "took_ms": "MS", "topic": "TOPIC", "broker": "BROKER", "message_id": "MESSAGE"}  # fmt: skip
    nothing = "no client recorded anything of a message with this id or key (clients do with trace=True)"
    show.answer(as_json, rows, lambda: show.table(rows, columns, nothing))


@app.command()
def tail(
    topic: Annotated[str, typer.Argument(help="Which topic.")],
    count: Annotated[
        int, typer.Option("--lines", "-l", help="Number of messages of every queue, the last ones.", min=0)
    ] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more messages until Ctrl-C.")] = False,
    tags: Tags = "*",
    body_bytes: BodyBytes = 120,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Show the last messages of a topic, one per line. No group's progress changes."""
    reading = Reading(topic, tags, last=count, follow=follow)
    print_queues(reading, Lines(body_bytes, as_json), name_servers, "message tail")


@app.command(name="print")
def print_messages(
    topic: Annotated[str, typer.Argument(help="Which topic.")],
    since: Annotated[str | None, typer.Option("--from", help="Time (2026-01-31T12:00); default: the oldest.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Time; default: the newest.")] = None,
    limit: Annotated[int, typer.Option("--max", help="Largest number of messages to show.", min=1)] = 1_000,
    tags: Tags = "*",
    body_bytes: BodyBytes = 120,
    as_json: Json = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Print the messages of a topic, queue by queue. No group's progress changes."""
    command = "message print"
    begin = 0 if since is None else _time(since, "--from", command)
    end = FOREVER_MS if until is None else _time(until, "--to", command)
    print_queues(Reading(topic, tags, begin, end, limit), Lines(body_bytes, as_json), name_servers, command)


def _time(text: str, option: str, command: str) -> int:
    found = show.parse_time(text)
    if found is None:
        fail(f"{option} {text!r}: write a time like 2026-01-31T12:00, or ms since 1970", command, USAGE)
    return found
