"""Servers that are started without the full command line: the same programs, with fewer modules loaded."""

from __future__ import annotations

import inspect
import signal
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.main import get_command
from typer.testing import CliRunner

from gantrymq.cli import commands, main
from gantrymq.cli import plain_start as options_and_start
from gantrymq.cli.serving import broker, nameserver, proxy, server
from gantrymq.demo.ports import free_port
from tests.cli.test_serve import program

PROGRAMS = {"server": server, "nameserver": nameserver, "broker": broker, "proxy": proxy}
HEAVY = (
    *("typer", "click", "rich", "pydantic", "pydantic_core", "importlib.metadata", "email", "http", "h11"),
    *("gantrymq.cli.commands", "gantrymq.cli.serve", "gantrymq.client", "gantrymq.aio", "gantrymq.broker.http"),
    *("gantrymq.broker.filtering.evaluation", "gantrymq.broker.transactions.explanations"),
    *("gantrymq.spark", "gantrymq.demo", "gantrymq.testing", "pyspark", "pyarrow", "numpy", "pandas"),
)
"""Modules that a server does not load. They would double its memory and start-up time."""
NOT_FOR_NAMES = ("gantrymq.broker", "gantrymq.store", "gantrymq.transactions")
"""What a name server does not load either."""


@pytest.mark.parametrize("command", sorted(options_and_start.OPTIONS))
def test_it_knows_the_options_of_the_command_line(command: str) -> None:
    group: Any = get_command(commands.app)
    reported = {
        option: parameter.name
        for parameter in group.get_command(None, command).params
        for option in parameter.opts
        if option != "--help"
    }
    assert {option: name for option, (name, _) in options_and_start.OPTIONS[command].items()} == reported


values = st.one_of(
    st.sampled_from(["0", "7", "10911", "007", "-1", "+1", "1_0", "1.0", " 1", "٣", "9999999999", "", "x", "-n", "--"]),
    st.sampled_from(["~/store", "/tmp/../a", "a=b", "=", "é", ".", "a//b", "$HOME", "sync", "host:1;host:2", "@f"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4),
)


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    """Words of a command line: mostly such as people write, some that are mistakes."""
    command = draw(st.sampled_from(sorted(options_and_start.OPTIONS)))
    known = [*options_and_start.OPTIONS[command], "--help", "--log", "--", "-cx", "-p1", "--no"]
    words = [command]
    for _ in range(draw(st.integers(0, 4))):
        option, value = draw(st.sampled_from(known)), draw(values)
        match draw(st.sampled_from(["two", "two", "two", "equals", "alone", "value"])):
            case "two":
                words += [option, value]
            case "equals":
                words.append(f"{option}={value}")
            case "alone":
                words.append(option)
            case _:
                words.append(value)
    return words


@given(lines())
@settings(max_examples=200, deadline=None)
def test_what_it_starts_is_what_the_command_line_starts(words: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        calls: list[dict[str, Any]] = []
        for name, module in PROGRAMS.items():
            parameters = inspect.signature(getattr(module, name)).parameters
            defaults = {parameter.name: parameter.default for parameter in parameters.values()}
            patch.setattr(module, name, lambda defaults=defaults, **given: calls.append(defaults | given))
        start = options_and_start.plain_start(words)
        if start is None:
            return
        start()
        done = CliRunner().invoke(commands.app, words)
        assert done.exit_code == 0, done.output
        plainly, by_the_command_line = calls
        assert plainly == by_the_command_line


@pytest.mark.parametrize(
    "words",
    [
        [], ["--help"], ["--version"], ["topic", "list"], ["broker", "--help"], ["broker", "--bogus", "1"],
        ["broker", "--listen-port"], ["broker", "--listen-port", "x"], ["broker", "--listen-port", "-1"],
        ["broker", "-c=x"], ["broker", "x"], ["broker", "--store="],
    ],
)  # fmt: skip
def test_the_rest_is_left_to_the_command_line(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert options_and_start.plain_start(words) is None
    called: list[str] = []
    monkeypatch.setattr(commands, "app", lambda: called.append("app"))
    monkeypatch.setattr("sys.argv", ["gantry", *words])
    main.main()
    assert called == ["app"]


def test_ctrl_c_before_the_loop_runs_ends_it_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(broker, "broker", interrupted)
    monkeypatch.setattr("sys.argv", ["gantry", "broker"])
    with pytest.raises(SystemExit) as plainly:
        main.main()
    monkeypatch.setattr("sys.argv", ["gantry"])
    by_the_command_line = typer.Typer()
    by_the_command_line.command()(interrupted)
    with pytest.raises(SystemExit) as reported:
        by_the_command_line()
    assert plainly.value.code == reported.value.code == main.INTERRUPTED


@pytest.mark.parametrize("command", sorted(options_and_start.OPTIONS))
def test_a_running_server_has_not_loaded_what_it_does_not_need(command: str, tmp_path: Path) -> None:
    port = "--grpc-port" if command == "proxy" else "--listen-port"
    options = [port, "0", "--host", "127.0.0.1", "--log-level", "error"]
    if command in ("server", "broker"):
        options += ["--store", str(tmp_path / "store")]
    if command == "server":
        options += ["--name-server-port", "0"]
    if command in ("broker", "proxy"):
        options += ["-n", f"127.0.0.1:{free_port()}"]
    with program(command, *options, PYTHONPROFILEIMPORTTIME="1") as running:
        running.ready()
        running.process.send_signal(signal.SIGTERM)
        status, _, reported = running.ended()
    assert status == 0
    loaded = {line.rpartition("|")[2].strip() for line in reported.splitlines()}
    assert "gantrymq.runtime.clock" in loaded, "it tells what is loaded"
    unwanted = {*HEAVY, *(NOT_FOR_NAMES if command == "nameserver" else ())}
    if command == "proxy":  # it is a client of brokers
        unwanted.discard("gantrymq.client")
    found = [name for name in loaded if any(name == one or name.startswith(f"{one}.") for one in unwanted)]
    assert not found
