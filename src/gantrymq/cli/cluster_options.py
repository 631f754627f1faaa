"""What all commands that talk to a cluster share: options, the connection, and how errors end a command.

Exit status: 0 success, 1 failure (refused, not found, not reachable), 2 wrong command line, or a question that nobody
could answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, NoReturn, TypeVar

import typer

from gantrymq.admin import Admin
from gantrymq.errors import ConfigError, GantryError, MessageIllegal, RequestRejected, RouteNotFound, TimedOut
from gantrymq.protocol.codes import ResponseCode

T = TypeVar("T")

LOCAL: Final = "127.0.0.1:9876"
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
"""After Ctrl-C, as shells have it."""
CALL_TIMEOUT_MS: Final = 5_000

NameServers = Annotated[
    str,
    typer.Option(
        "--name-servers", "-n", envvar="NAMESRV_ADDR", help="Name servers, separated by ';'.", show_envvar=True
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output instead of a table.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
BrokerOption = Annotated[str | None, typer.Option("--broker", "-b", help="Only this broker: its name or address.")]
ClusterOption = Annotated[str | None, typer.Option("--cluster", "-c", help="Only the brokers of this cluster.")]

_ADVICE: Final = {
    ResponseCode.NO_PERMISSION: "the broker does not allow that",
    ResponseCode.TOPIC_NOT_EXIST: "`gantry topic list` shows the topics there are",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: "`gantry group list` shows the groups there are",
    ResponseCode.CONSUMER_NOT_ONLINE: "no member of that group is connected",
}
"""Advice for refusals that do not contain any."""


def with_cluster(name_servers: str, work: Callable[[Admin], Awaitable[T]], command: str) -> T:
    """Run ``work`` with a connection to the cluster. An error becomes one sentence and an exit status."""

    async def run() -> T:
        async with Admin(name_servers, call_timeout_ms=CALL_TIMEOUT_MS) as admin:
            return await work(admin)

    return guarded(lambda: asyncio.run(run()), command)


def guarded(work: Callable[[], T], command: str) -> T:
    """Run ``work``. An error that a person can act on ends the command with one sentence."""
    try:
        return work()
    except (ConfigError, MessageIllegal) as error:
        fail(str(error), command, USAGE)
    except GantryError as error:
        fail(sentence(error), command)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def sentence(error: GantryError) -> str:
    """The text of an error, and advice."""
    if isinstance(error, RequestRejected):
        advice = _ADVICE.get(ResponseCode(error.code)) if error.code in set(ResponseCode) else None
        return f"{error}; {advice}" if advice else str(error)
    if isinstance(error, TimedOut):
        return f"{error}; check the state before you try again"
    if isinstance(error, RouteNotFound):
        return f"{error}; `gantry topic list` shows the topics there are"
    return str(error)


def fail(text: str, command: str, status: int = FAILED) -> NoReturn:
    """End the command with a sentence on standard error."""
    typer.echo(f"gantry {command}: {text}", err=True)
    raise typer.Exit(status)


def more(left: int) -> None:
    """Say that a list was cut by ``--max``: what is not shown is not asked about."""
    if left:
        note(f"... and {left} more; --max shows more of them")


def note(text: str) -> None:
    """Print a remark on standard error, so that it never gets into a pipe together with the answer."""
    typer.echo(text, err=True)


def agreed(question: str, yes: bool, command: str) -> None:
    """Ask a person. Without a terminal and without --yes nothing is done."""
    if yes:
        return
    import sys

    if not sys.stdin.isatty():
        fail(
            "this command changes something and nobody can be asked here; repeat it with --yes (or --dry-run)",
            command,
            USAGE,
        )
    if not typer.confirm(question, err=True):
        fail("nothing was done", command)


def pairs(texts: list[str], what: str, command: str) -> dict[str, str]:
    """``key=value`` arguments as a dictionary."""
    found: dict[str, str] = {}
    for text in texts:
        key, mark, value = text.partition("=")
        if not mark or not key:
            fail(f"{what} {text!r}: write it as key=value", command, USAGE)
        found[key] = value
    return found


Rows = list[dict[str, Any]]
