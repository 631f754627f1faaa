"""Every command of ``gantry``: its help and its usual start. ``test_bare_environment.py`` runs this where nearly
everything is missing that a login has. It prints what is wrong as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
from typer.main import get_command
from typer.testing import CliRunner

from gantrymq import LocalTransactionState, Message, Producer, TransactionProducer
from gantrymq.cli.commands import app
from tests.cli.test_serve import Program

PLACE: Final = Path("/srv")
SERVERS: Final = "127.0.0.1:9876"
KNOWN: Final = {"topic": "orders", "group": "readers", "broker": "broker-a"}
"""What the arguments of commands are given, by name; ``1`` for all others."""
RUNS_LONG: Final = {
    ("server",): "started below", ("broker",): "started below", ("nameserver",): "started below",
    ("console",): "started below", ("demo",): "a whole cluster with Spark", ("simulate",): "minutes",
    ("crash-points",): "minutes", ("check-history",): "needs a file of simulate",
    ("checker",): "runs until it is stopped", ("proxy",): "runs until it is stopped",
    ("spark-checker",): "runs until it is stopped", ("pipeline", "run"): "starts Spark",
    ("pipeline", "order-paid"): "starts Spark", ("pipeline", "lifecycle"): "starts Spark",
    ("pipeline", "archive"): "starts Spark", ("pipeline", "replay"): "starts Spark",
    ("pipeline", "reconcile"): "starts Spark",
}  # fmt: skip
"""Commands whose usual start is not tried here, and why. Their help is."""


class Undecided:
    def execute_local_transaction(self, message: Any, arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: Any) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "list_commands"):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from leaves(command.get_command(context, name), (*path, name))
    else:
        yield path, command


def usual(command: Any) -> list[str]:
    """Arguments for a usual start: all that are required, and the consent where a person would be asked."""
    words = []
    for one in command.params:
        value = KNOWN.get(one.name or "", "1")
        if one.param_type_name == "argument" and one.required:
            words.append(value)
        elif "--yes" in one.opts:
            words.append("--yes")
        elif "--why" in one.opts:
            words += ["--why", "a test"]
        elif one.required:
            words += [one.opts[0], value]
    return words


def wrong(words: tuple[str, ...]) -> str:
    """What is wrong with this command line; empty when it did its work or ended with a sentence."""
    done = CliRunner().invoke(app, list(words), env={"NAMESRV_ADDR": SERVERS}, input="")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return "".join(traceback.format_exception(done.exception))[-600:]
    if done.exit_code not in (0, 1, 2) or "Traceback" in done.output:
        return f"{done.exit_code}: {done.output[-600:]}"
    return f"{done.exit_code} without a word" if done.exit_code and not done.stderr.strip() else ""


def commands() -> tuple[int, dict[str, str]]:
    """How many command lines were tried, and which of them failed."""
    lines: list[tuple[str, ...]] = []
    for path, command in leaves(get_command(app)):
        lines.append((*path, "--help"))
        if path not in RUNS_LONG:
            lines.append((*path, *usual(command)))
    found = {" ".join(line): fault for line in lines if (fault := wrong(line))}
    return len(lines), found


def starts() -> dict[str, str]:
    """The first words of each server, or its last ones when it does not start."""
    said = {}
    for words in (
        ("broker", "--store", "/srv/other", "--listen-port", "0"), ("broker", "--listen-port", "0"),
        ("server", "--listen-port", "0", "--name-server-port", "0"), ("console", "--port", "0"),
        ("console", "--port", "0", "--audit", "/srv/audit.jsonl"), ("pipeline", "status"),
    ):  # fmt: skip
        with contextlib.closing(_Closing(*words)) as running:
            said[" ".join(words)] = running.words()
    return said


class _Closing(Program):
    def words(self) -> str:
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        return first or self.process.communicate()[1]

    def close(self) -> None:
        self.kill()


def main() -> None:
    server = Program("server", "--store", str(PLACE / "store"), NAMESRV_ADDR="")
    try:
        server.ready()
        with Producer("p", name_servers=SERVERS) as producer:
            producer.send(Message("orders", "hello \u20ac"))
        with TransactionProducer("payers", name_servers=SERVERS, listener=Undecided()) as payer:
            half = payer.send_in_transaction(Message("orders", "undecided"))
        commit = ("transactions", "commit", half.transaction_id or "", "--yes", "--why", "paid")
        without = CliRunner().invoke(app, list(commit), env={"NAMESRV_ADDR": SERVERS})
        with_audit = CliRunner().invoke(app, [*commit, "--audit", "/srv/audit.jsonl"], env={"NAMESRV_ADDR": SERVERS})
        shown = Program("message", "tail", "orders", NAMESRV_ADDR=SERVERS, PYTHONIOENCODING="latin-1").ended()
        number, faults = commands()
        print(json.dumps({
            "uid": os.getuid(), "tried": number, "faults": faults, "starts": starts(), "shown": shown,
            "commit": [without.exit_code, without.stderr], "audited": [with_audit.exit_code, with_audit.output],
            "audit": (PLACE / "audit.jsonl").read_text(),
        }))  # fmt: skip
    finally:
        server.kill()


if __name__ == "__main__":
    main()
