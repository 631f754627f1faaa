"""``gantry topic``: make, list and remove topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from gantrymq import Admin
from gantrymq.errors import GantryError
from gantrymq.message import system_topics

app = typer.Typer(help="Make, list and remove topics.", no_args_is_help=True)
NameServers = Annotated[str, typer.Option("--name-servers", "-n", help="Name servers, separated by ';'.")]
LOCAL = "127.0.0.1:9876"
_DERIVED = (system_topics.RETRY_PREFIX, system_topics.DEAD_LETTER_PREFIX)


@contextmanager
def _admin(name_servers: str) -> Iterator[Admin]:
    """A connection to the cluster; what goes wrong becomes one sentence and exit status 1."""
    try:
        with Admin(name_servers) as admin:
            yield admin
    except GantryError as error:
        typer.echo(f"gantry topic: {error}", err=True)
        raise typer.Exit(1) from None


@app.command()
def create(
    topic: Annotated[str, typer.Argument(help="Letters, digits and % | - _, at most 127.")],
    queues: Annotated[int, typer.Option(help="Queues on every broker.")] = 4,
    message_type: Annotated[
        str | None, typer.Option("--type", help="NORMAL, FIFO, DELAY, TRANSACTION or MIXED; without it: anything.")
    ] = None,
    name_servers: NameServers = LOCAL,
) -> None:
    """Make a topic, or alter it."""
    with _admin(name_servers) as admin:
        admin.create_topic(topic, queues=queues, message_type=message_type)
    typer.echo(f"topic {topic} is there")


@app.command(name="list")
def list_topics(
    all_topics: Annotated[bool, typer.Option("--all", help="Also retry and dead-letter topics.")] = False,
    name_servers: NameServers = LOCAL,
) -> None:
    """Show the topics that the name servers know."""
    with _admin(name_servers) as admin:
        for topic in sorted(admin.topics()):
            if all_topics or not topic.startswith(_DERIVED):
                typer.echo(topic)


@app.command()
def delete(topic: str, name_servers: NameServers = LOCAL) -> None:
    """Remove a topic. Its messages stay in the log until retention, and are seen again if it is made again."""
    with _admin(name_servers) as admin:
        admin.delete_topic(topic)
    typer.echo(f"topic {topic} is removed")
