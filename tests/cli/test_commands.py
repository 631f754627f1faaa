"""The commands against a real server of ours; ``tests/interop/test_cli.py`` tells the same stories on Apache's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import stories
from tests.cli.test_serve import address, program
from tests.cli.tool import Tool

CONF = """
brokerName=broker-a
flushDiskType=ASYNC_FLUSH
transactionTimeOut=1000
transactionCheckInterval=300
transactionCheckMax=3
"""


@pytest.fixture(scope="module")
def name_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("server")
    (root / "broker.conf").write_text(CONF)
    arguments = ("-c", str(root / "broker.conf"), "--store", str(root / "store"), "--name-server-port", "0")
    with program("server", *arguments, "--listen-port", "0", "--log-level", "error") as running:
        yield address(running.ready(), "name server")


@pytest.fixture
def tool(name_servers: str, tmp_path: Path) -> Tool:
    return Tool(name_servers, tmp_path / "state" / "audit.jsonl")


def test_topics(tool: Tool) -> None:
    stories.topics(tool, typed=True)


def test_messages(tool: Tool) -> None:
    stories.messages(tool)


def test_groups(tool: Tool) -> None:
    stories.groups(tool)


def test_consumers(tool: Tool) -> None:
    stories.consumers(tool)


def test_resets(tool: Tool) -> None:
    stories.resets(tool, told_offsets=True)


def test_cluster(tool: Tool) -> None:
    stories.cluster(tool, "GantryMQ")


def test_transactions(tool: Tool) -> None:
    stories.transactions(tool)


def test_parked_transactions(tool: Tool) -> None:
    stories.parked(tool)


def test_a_decision_that_cannot_be_recorded_is_not_made(tool: Tool, tmp_path: Path) -> None:
    topic = "CliUnrecorded"
    tool.json("topic", "create", topic, "--type", "TRANSACTION")
    with stories.undecided_producer(tool.name_servers, "CliUnrecorded", topic) as producer:
        (one,) = stories.leave_open(producer, topic, 1)
    (tmp_path / "file").write_text("no directory")
    audit = str(tmp_path / "file" / "audit.jsonl")
    said = tool.fails("transactions", "commit", one, "--why", "x", "--yes", "--audit", audit)
    assert "--audit" in said
    assert tool.json("transactions", "show", one)[0]["state"] == "open"
    tool.json("transactions", "rollback", one, "--why", "cleaning up", "--yes")


def test_nobody_there(tmp_path: Path) -> None:
    tool = Tool("127.0.0.1:1", tmp_path / "audit.jsonl")
    for command in (("topic", "list"), ("group", "list"), ("cluster", "list"), ("transactions", "list")):
        said = tool.fails(*command)
        assert "127.0.0.1:1" in said and "gantry server" in said


def test_commands_that_were_not_meant_like_that(tool: Tool) -> None:
    tool.fails("topic", "create", status=2)
    tool.fails("topic", "create", "bad name", status=2)
    tool.fails("message", "show", status=2)
    tool.fails("message", "show", "--key", "k", status=2)
    tool.fails("message", "send", "T", "body", "--file", "x", status=2)
    tool.fails("message", "send", "T", "body", "-p", "no-value", status=2)
    tool.fails("message", "send", "T", "body", "--queue", "0", status=2)
    tool.fails("transactions", "list", "--state", "lost", status=2)
    assert "127.0.0.1:9876" in tool.text("topic", "list", "--help")
