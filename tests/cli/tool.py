"""``gantry`` commands run in this process, as a person or a program would call them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from gantrymq import LocalTransactionState, Message, TransactionProducer
from gantrymq.cli.commands import app

DEADLINE_S = 90.0
ACCOUNT = ("GANTRY_ACCESS_KEY", "GANTRY_SECRET_KEY")
"""``gantry`` sets them from its options. In a process of its own they would end with it."""


class Tool:
    """Commands against one cluster, with a record of decisions of its own."""

    def __init__(self, name_servers: str, audit: Path) -> None:
        self.name_servers = name_servers
        self.audit = audit
        self._environment = {"NAMESRV_ADDR": name_servers, "GANTRY_AUDIT": str(audit), "COLUMNS": "300"}

    def run(self, *arguments: str, input: str | None = None) -> tuple[int, str, str]:
        """Exit status, standard output, standard error."""
        as_before = {name: os.environ.get(name) for name in ACCOUNT}  # the runner puts back what it was given
        done = CliRunner().invoke(app, list(arguments), env={**as_before, **self._environment}, input=input)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    def text(self, *arguments: str) -> str:
        """Standard output of a command that works."""
        status, out, err = self.run(*arguments)
        assert status == 0, (arguments, err, out)
        return out

    def json(self, *arguments: str) -> Any:
        """Its answer as JSON."""
        return json.loads(self.text(*arguments, "--json"))

    def lines(self, *arguments: str) -> list[dict[str, Any]]:
        """Its answer as JSON lines."""
        return [json.loads(line) for line in self.text(*arguments, "--json").splitlines()]

    def fails(self, *arguments: str, status: int = 1) -> str:
        """What a command says that does not work."""
        found, out, err = self.run(*arguments)
        assert found == status, (arguments, found, out, err)
        assert "Traceback" not in err
        return err

    def decisions(self) -> list[dict[str, Any]]:
        """The lines of the record."""
        return [json.loads(line) for line in self.audit.read_text().splitlines()] if self.audit.exists() else []


def eventually(look: Callable[[], Any]) -> Any:
    """What ``look`` gives, once it gives something."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := look()):
        assert time.monotonic() < deadline, look
        time.sleep(0.2)
    return found


class Undecided:
    """A listener that never knows."""

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return arg or LocalTransactionState.UNKNOWN  # type: ignore[no-any-return]

    def check_local_transaction(self, message: Message) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


def undecided_producer(name_servers: str, group: str, topic: str) -> TransactionProducer:
    return TransactionProducer(group, name_servers=name_servers, listener=Undecided(), topics=[topic])


def leave_open(producer: TransactionProducer, topic: str, count: int, state: Any = None) -> list[str]:
    """The ids of transactions that were sent with that outcome; none: undecided."""
    return [
        producer.send_in_transaction(Message(topic, f"body {number}", keys=[f"key-{number}"]), state).message_id
        for number in range(count)
    ]
