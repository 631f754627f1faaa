"""Every command that asks a cluster that is down says so and fails; none shows a list that looks like an empty one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from gantrymq.cli.commands import app
from tests.support.down import BROKER, GROUP, TOPIC, WAYS, down, wrong

ID = "7F0000014B2D18B4AAC2000000000001"
VALUES = {
    "topic": TOPIC, "group": GROUP, "message_id": ID, "transaction": ID, "word": "k7", "client": "c1", "to": "latest",
    "body": "x", "name": "ann", "user": "ann", "broker": BROKER, "settings": "flushDiskType=SYNC_FLUSH",
    "resource": f"Topic:{TOPIC}", "actions": "Pub",
}  # fmt: skip
"""What is given for a parameter, by its name."""
MORE = {
    "message show": ["--topic", TOPIC], "topic create": ["--queues", "4"], "group alter": ["--retry-max", "3"],
    "acl remove": ["--all"], "user create": ["--password-file", "password"], "user update": ["--disable"],
}  # fmt: skip
FREE = {"--yes": [], "--why": ["ticket 7"]}
OTHER_SUITES = ("console", "proxy", "sql", "checker", "spark-checker", "pipeline")
"""Processes that go on and wait for the cluster, or that need a database or Spark first."""
ANSWERED_BY_NAME_SERVERS = ("topic list", "topic route")
"""Their whole answer is the name servers' own."""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Each command below ``command`` that asks a cluster."""
    if hasattr(command, "list_commands"):
        context = click.Context(command)
        for name in command.list_commands(context):
            if path or name not in OTHER_SUITES:
                yield from commands(command.get_command(context, name), (*path, name))
    elif any("--name-servers" in option.opts for option in command.params):
        yield " ".join(path), command


COMMANDS = dict(commands(get_command(app)))


def arguments(name: str, command: Any) -> list[str]:
    """A valid command line; a parameter without a value in ``VALUES`` is a KeyError, which says what to add."""
    found = [*name.split()]
    for at in command.params:
        if at.param_type_name == "argument":
            found.append(VALUES[at.name])
        elif at.required:
            found += [at.opts[0], VALUES[at.name]]
        elif free := next((option for option in at.opts if option in FREE), None):
            found += [free, *FREE[free]]
    return found + MORE.get(name, [])


LISTS = ("cluster list", "cluster replicas")
"""These show which brokers are silent."""


@pytest.mark.parametrize("way", WAYS)
def test_no_command_answers_for_a_cluster_that_it_could_not_ask(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "password").write_text("correct horse battery\n")

    async def bounded() -> dict[str, str]:
        found = {}
        async with asyncio.timeout(120), down(way) as name_servers:
            for name, command in COMMANDS.items():
                if way == WAYS[2] and name in (*ANSWERED_BY_NAME_SERVERS, "cluster failover"):
                    continue
                line = [*arguments(name, command), "--name-servers", name_servers]
                result = await asyncio.to_thread(CliRunner().invoke, app, line)
                text = result.stdout + result.stderr
                problem = wrong(text)
                if result.exit_code == 0 and name not in LISTS:
                    problem = problem or "it succeeds"
                if problem:
                    found[name] = f"{problem}: {result.exit_code} {text[-400:]!r} {result.exception!r}"
        return found

    assert len(COMMANDS) > 30
    found = asyncio.run(bounded())
    assert not found, "\n".join(f"{name}: {problem}" for name, problem in found.items())
