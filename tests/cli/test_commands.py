"""The commands against a real GantryMQ server; ``tests/interop/test_cli.py`` runs the same tests on Apache's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gantrymq import LocalTransactionState
from gantrymq.cli import transactions
from tests.cli import scenarios
from tests.cli.test_serve import address, program
from tests.cli.tool import Tool, eventually

CONF = """
brokerName=broker-a
flushDiskType=ASYNC_FLUSH
transactionTimeOut=1000
transactionCheckInterval=2000
transactionCheckMax=3
"""
"""A question that is not answered within the interval is asked again, and counts; and what is open has to be so while
some commands are run."""


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


@pytest.mark.slow
def test_topics(tool: Tool) -> None:
    scenarios.topics(tool, typed=True)


def test_shrinking_a_topic(tool: Tool) -> None:
    scenarios.shrinking(tool)


def test_messages(tool: Tool) -> None:
    scenarios.messages(tool)


def test_groups(tool: Tool) -> None:
    scenarios.groups(tool)


def test_attributes_of_groups_and_priorities_of_messages(tool: Tool) -> None:
    tool.json("topic", "create", "CliRanked", "--type", "PRIORITY", "--queues", "4")
    sent = [tool.json("message", "send", "CliRanked", "x", "--priority", number)["queue"] for number in "097"]
    assert sent == [0, 3, 3]
    tool.json("group", "create", "cli-rankers", "-a", "priority.factor=80", "-a", "lite.bind.topic=CliBaskets")
    changed = tool.json("group", "alter", "cli-rankers", "-a", "priority.factor=50", "-a", "lite.bind.topic=", "--yes")
    now = {row["key"]: (row["before"], row["after"]) for row in changed["changes"]}
    assert now == {"priority.factor": ("80", "50"), "lite.bind.topic": ("CliBaskets", "")}
    again = tool.json("group", "alter", "cli-rankers", "-a", "priority.factor=50", "--yes")
    assert again["changes"] == []
    tool.fails("group", "alter", "cli-rankers", "-a", "priority.factor=500", "--yes")
    tool.fails("group", "alter", "cli-rankers", "-a", "factor", "--yes", status=2)


def test_consumers(tool: Tool) -> None:
    scenarios.consumers(tool)


def test_resets(tool: Tool) -> None:
    scenarios.resets(tool, reported_offsets=True)


def test_cluster(tool: Tool) -> None:
    scenarios.cluster(tool, "GantryMQ")


def test_transactions(tool: Tool) -> None:
    scenarios.transactions(tool)


@pytest.mark.slow
def test_parked_transactions(tool: Tool) -> None:
    one = scenarios.parked(tool)
    (reported,) = tool.json("transactions", "explain", one)
    events = reported["events"]
    names = [event["event"] for event in events]
    assert names[:3] == ["stored", "ended_unknown", "immunity_ended"] and names[-1] == "committed"
    assert names.count("check_answered") == 3, names
    parked, resumed = names.index("parked"), names.index("resumed")
    assert parked < resumed and "transactionCheckMax" in events[parked]["cause"]
    assert events[resumed]["cause"].startswith("an operator resumed it: ") and "mended" in events[resumed]["cause"]
    assert "an operator decided: " in events[-1]["cause"] and "paid" in events[-1]["cause"]
    # The tool that decided was of the group for a moment, and was asked nothing: it could not have answered.
    assert "check_sent" not in names[resumed:]
    assert all(event["at"] and event["cause"] for event in events)
    text = tool.text("transactions", "explain", one)
    for event in events:
        assert event["what"] in text and event["cause"] in text
    assert "Why: It was committed" in text


def test_the_list_counts_the_checks_of_each_one_as_explain_does(tool: Tool) -> None:
    topic = group = "CliCounted"
    tool.json("topic", "create", topic, "--type", "TRANSACTION")
    with scenarios.undecided_producer(tool.name_servers, group, topic) as producer:
        first, second = scenarios.leave_open(producer, topic, 2)

        def rows() -> dict[str, dict[str, object]]:
            return {row["id"]: row for row in tool.json("transactions", "list", "--group", group)}

        assert {row["checks"] for row in rows().values()} <= {0, 1}, "known from the first moment on"
        eventually(lambda: all(row["checks"] for row in rows().values()))
        eventually(lambda: tool.json("transactions", "show", first)[0]["checks"])
        assert tool.json("transactions", "explain", second)[0]["checks"]
        assert "unknown" not in " ".join(str(row["why"]) for row in rows().values())


def test_many_events_are_shown_in_part_unless_all_are_wanted(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = "CliMany"
    tool.json("topic", "create", topic, "--type", "TRANSACTION")
    with scenarios.undecided_producer(tool.name_servers, "CliMany", topic) as producer:
        (one,) = scenarios.leave_open(producer, topic, 1, LocalTransactionState.ROLLBACK)
    monkeypatch.setattr(transactions, "FIRST_SHOWN", 1)
    monkeypatch.setattr(transactions, "LAST_SHOWN", 0)
    assert "1 more (--all)" in tool.text("transactions", "explain", one)
    assert "rolled back: no consumer" in tool.text("transactions", "explain", one, "--all")
    assert "no broker has a transaction" in tool.fails("transactions", "explain", "F" * 32)


def test_a_decision_that_cannot_be_recorded_is_not_made(tool: Tool, tmp_path: Path) -> None:
    topic = "CliUnrecorded"
    tool.json("topic", "create", topic, "--type", "TRANSACTION")
    with scenarios.undecided_producer(tool.name_servers, "CliUnrecorded", topic) as producer:
        (one,) = scenarios.leave_open(producer, topic, 1)
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
