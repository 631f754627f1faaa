"""Tests of the command line that run on our broker and on Apache's.

Each creates topics and groups of its own, so that they can share a cluster.
"""

from __future__ import annotations

from gantrymq import ConsumeFromWhere, ConsumeStatus, LocalTransactionState, PushConsumer
from tests.cli.tool import Tool, eventually, leave_open, undecided_producer


def topics(tool: Tool, *, typed: bool) -> None:
    """Make, look at, remove. ``typed``: the broker knows message types."""
    made = tool.json("topic", "create", "CliTopic", "--queues", "2", "--type", "TRANSACTION")
    assert made["brokers"] == ["broker-a"]
    assert "CliTopic" in tool.text("topic", "list").splitlines()
    (row,) = [row for row in tool.json("topic", "list", "--long") if row["topic"] == "CliTopic"]
    assert (row["queues"], row["messages"], row["brokers"], row["perm"]) == (2, 0, ["broker-a"], "rw")
    shown = tool.json("topic", "show", "CliTopic")
    assert shown["brokers"][0]["type"] == ("TRANSACTION" if typed else "any")
    assert shown["brokers"][0]["write_queues"] == 2
    (route,) = tool.json("topic", "route", "CliTopic")["brokers"]
    assert list(route["addresses"]) == ["0"]
    alter = ("topic", "create", "CliTopic", "--queues", "3", "--perm", "4")
    planned = tool.json(*alter, "--dry-run")
    assert [(row["key"], row["before"], row["after"]) for row in planned["changes"]] == [
        ("readQueueNums", 2, 3), ("writeQueueNums", 2, 3), ("perm", 6, 4),
    ]  # fmt: skip
    assert not planned["done"] and "nothing was done" in tool.text(*alter, "--dry-run")
    assert "--yes" in tool.fails(*alter, status=2), "nobody can be asked here"
    assert tool.json("topic", "route", "CliTopic")["brokers"][0]["perm"] == "rw", "so nothing was done"
    assert tool.json(*alter, "--yes")["done"]
    assert tool.json("topic", "route", "CliTopic")["brokers"][0]["perm"] == "r-"
    assert not tool.json("topic", "create", "CliTopic")["changes"], "what is not given stays; no question"
    assert len(tool.json("topic", "status", "CliTopic")["queues"]) == 3
    for command in ("show", "status", "route"):
        assert "broker-a" in tool.text("topic", command, "CliTopic"), "a table, for people"
    (row,) = tool.json("topic", "delete", "CliTopic", "--dry-run")["brokers"]
    assert (row["broker"], row["queues"], row["messages"]) == ("broker-a", 3, 0)
    assert "--yes" in tool.fails("topic", "delete", "CliTopic", status=2), "nobody can be asked here"
    assert "CliTopic" in tool.text("topic", "list").splitlines()
    tool.json("topic", "delete", "CliTopic", "--yes")
    assert "CliTopic" not in tool.text("topic", "list").splitlines()
    assert "gantry topic list" in tool.fails("topic", "show", "CliTopic"), "what to do next"
    if not typed:
        # A broker 4.9.7 that was registering meanwhile brings the route back. The name servers alone know it then, and
        # this takes it from them.
        tool.run("topic", "delete", "CliTopic", "--yes")
    assert "gantry topic list" in tool.fails("topic", "delete", "CliTopic", "--yes")


def shrinking(tool: Tool) -> None:
    """Fewer queues hide messages from who has not read them: not without a word that says so."""
    topic = "CliShrink"
    tool.json("topic", "create", topic, "--queues", "4")
    for number in range(8):
        tool.json("message", "send", topic, f"m{number}", "--queue", f"broker-a:{number % 4}")
    one_queue = ("topic", "create", topic, "--queues", "1")
    eventually(lambda: tool.json(*one_queue, "--dry-run")["hidden_messages"] == 6)
    said = tool.fails(*one_queue, "--yes")
    assert "6 message(s) in 3 queue(s)" in said and "broker-a:1" in said
    assert "--hide-messages" in said and "writeQueueNums" in said and "readQueueNums" in said
    assert "hide 8 message(s)" in tool.fails("topic", "create", topic, "--perm", "2", "--yes"), "unreadable, too"
    assert "nobody would read" in tool.fails("topic", "create", topic, "--write-queues", "8", "--yes")
    assert tool.json("topic", "show", topic)["brokers"][0]["read_queues"] == 4
    assert len(tool.text("message", "print", topic).splitlines()) >= 8
    tool.json("topic", "create", topic, "--write-queues", "1", "--yes")  # the safe way begins like this
    (shown,) = tool.json("topic", "show", topic)["brokers"]
    assert (shown["write_queues"], shown["read_queues"]) == (1, 4)
    tool.json(*one_queue, "--yes", "--hide-messages")
    assert tool.json("topic", "show", topic)["brokers"][0]["read_queues"] == 1
    tool.json("topic", "create", topic, "--queues", "4", "--yes")
    assert tool.json("topic", "delete", topic, "--yes")["messages"] == 8


def messages(tool: Tool) -> None:
    """Send, and find again in every way."""
    tool.json("topic", "create", "CliMessages", "--queues", "2")
    arguments = ("--tags", "A", "--keys", "k1 k2", "-p", "user=me", "--queue", "broker-a:1")
    sent = tool.json("message", "send", "CliMessages", "gr\u00fc\u00dfe \x1b[31m", *arguments)
    assert (sent["status"], sent["queue"], sent["queue_offset"]) == ("SEND_OK", 1, 0)
    place = ("--topic", "CliMessages", "--queue", "broker-a:1", "--offset", "0")
    eventually(lambda: tool.run("message", "show", *place)[0] == 0)
    ways = (
        (sent["offset_message_id"],),
        (sent["message_id"], "--topic", "CliMessages"),
        ("--topic", "CliMessages", "--key", "k2"),
        place,
    )
    for way in ways:
        eventually(lambda way=way: tool.run("message", "show", *way)[0] == 0)
        (found,) = tool.json("message", "show", *way)
        assert found["message_id"] == sent["message_id"], way
        assert (found["body"], found["body_encoding"], found["tags"]) == ("gr\u00fc\u00dfe \x1b[31m", "utf-8", "A")
        assert found["properties"]["user"] == "me" and found["broker"] == "broker-a"
    shown = tool.text("message", "show", *place)
    assert "gr\u00fc\u00dfe \\x1b[31m" in shown and "\x1b" not in shown, "nothing that a terminal obeys"
    assert "no such message" in tool.fails("message", "show", "--topic", "CliMessages", "--key", "absent")
    assert "no such message" in tool.fails("message", "show", "00" * 16, "--topic", "CliMessages")
    tool.json("message", "send", "CliMessages", "second", "--tags", "B")
    tail = eventually(lambda: len(lines := tool.lines("message", "tail", "CliMessages")) == 2 and lines)
    assert {line["body"] for line in tail} == {"gr\u00fc\u00dfe \x1b[31m", "second"}
    (line,) = tool.lines("message", "print", "CliMessages", "--tags", "B")
    assert line["body"] == "second"
    assert "second" in tool.text("message", "tail", "CliMessages")
    assert not tool.text("message", "print", "CliMessages", "--to", "2001-01-01T00:00")


def groups(tool: Tool) -> None:
    """Make, alter, look at, remove."""
    assert tool.json("group", "create", "CliGroup", "--retry-max", "3")["brokers"] == ["broker-a"]
    for command in ("alter", "create"):  # of a group that is there: the same
        (change,) = tool.json("group", command, "CliGroup", "--no-consume", "--dry-run")["changes"]
        assert (change["key"], change["before"], change["after"]) == ("consume_enable", True, False)
        assert "--yes" in tool.fails("group", command, "CliGroup", "--no-consume", status=2), "nobody can be asked here"
    assert tool.json("group", "show", "CliGroup")["brokers"][0]["consume"], "so nothing was done"
    tool.json("group", "alter", "CliGroup", "--no-consume", "--yes")
    (row,) = [row for row in tool.json("group", "list") if row["group"] == "CliGroup"]
    assert (row["consume"], row["retries"], row["members"]) == (False, 3, 0)
    shown = tool.json("group", "show", "CliGroup")
    assert (shown["members"], shown["brokers"][0]["retries"]) == ([], 3)
    assert "CliGroup" in tool.text("group", "list") and "TOOLS_CONSUMER" not in tool.text("group", "list")
    assert tool.json("group", "delete", "CliGroup", "--dry-run")["deleted"] is False
    assert "--yes" in tool.fails("group", "delete", "CliGroup", status=2), "nobody can be asked here"
    tool.json("group", "delete", "CliGroup", "--yes")
    assert "gantry group list" in tool.fails("group", "show", "CliGroup")
    assert "gantry group list" in tool.fails("group", "alter", "CliGroup", "--retry-max", "1")


def consumers(tool: Tool) -> None:
    """A group reads, is looked at, and is sent elsewhere: offline by offset, online by edge."""
    tool.json("topic", "create", "CliRead", "--queues", "1")
    tool.json("message", "send", "CliRead", "wanted", "--tags", "A", "--keys", "w")
    tool.json("message", "send", "CliRead", "not wanted", "--tags", "Z", "--keys", "z")
    got: list[str] = []

    def listener(batch: list[object]) -> ConsumeStatus:
        got.extend(message.body.decode() for message in batch)  # type: ignore[attr-defined]
        return ConsumeStatus.CONSUME_SUCCESS

    def lag_is(number: int) -> bool:
        return bool(tool.json("consumer", "progress", "CliReaders", "--topic", "CliRead")["lag"] == number)

    consumer = PushConsumer(
        "CliReaders", name_servers=tool.name_servers, listener=listener, from_where=ConsumeFromWhere.FIRST_OFFSET,
        persist_interval_ms=200, rebalance_interval_ms=500,
    )  # fmt: skip
    with consumer.subscribe("CliRead", "A || B"):
        eventually(lambda: got)
        tool.json("message", "send", "CliRead", "wanted, too", "--tags", "B")
        eventually(lambda: len(got) == 2)
        eventually(lambda: lag_is(0))
        online = tool.json("consumer", "connections", "CliReaders")
        assert {row["topic"]: row["expression"] for row in online["subscriptions"]}["CliRead"] == "A || B"
        (member,) = online["members"]
        assert member["language"] == "PYTHON"
        (row,) = [row for row in tool.json("consumer", "progress") if row["group"] == "CliReaders"]
        assert (row["members"], row["model"]) == (1, "CLUSTERING")
        assert tool.json("group", "show", "CliReaders")["members"] == [member["client"]]
        assert tool.json("topic", "show", "CliRead")["groups"] == ["CliReaders"]
        states = {}
        for key in "wz":
            (message,) = tool.json("message", "show", "--topic", "CliRead", "--key", key)
            states[key] = message["readers"]
        assert [(at["group"], at["state"]) for at in states["w"]] == [("CliReaders", "done")]
        assert [(at["group"], at["state"]) for at in states["z"]] == [("CliReaders", "filtered")]
        for command in ("progress", "connections"):
            assert "CliRead" in tool.text("consumer", command, "CliReaders")
    eventually(lambda: tool.run("consumer", "connections", "CliReaders")[0] == 1)
    assert lag_is(0)


def resets(tool: Tool, *, reported_offsets: bool) -> None:
    """A group goes on elsewhere: without members by any offset, with members they are told.

    ``told_offsets``: the broker can tell members an offset, not only a time.
    """
    topic, group = "CliReset", "CliResetters"
    tool.json("topic", "create", topic, "--queues", "1")
    for number in range(3):
        tool.json("message", "send", topic, f"body {number}")
    got: list[str] = []

    def listener(batch: list[object]) -> ConsumeStatus:
        got.extend(message.body.decode() for message in batch)  # type: ignore[attr-defined]
        return ConsumeStatus.CONSUME_SUCCESS

    def lag_is(number: int) -> bool:
        return bool(tool.json("consumer", "progress", group, "--topic", topic)["lag"] == number)

    consumer = PushConsumer(
        group, name_servers=tool.name_servers, listener=listener, from_where=ConsumeFromWhere.FIRST_OFFSET,
        persist_interval_ms=200, rebalance_interval_ms=500, pull_suspend_ms=2_000,
    )  # fmt: skip
    # Brokers 5.x set a group back when it pulls again: after the pull that waits for a message until its time is over.
    with consumer.subscribe(topic):
        eventually(lambda: len(got) == 3 and lag_is(0))
        (state,) = tool.json("consumer", "running", group).values()
        assert [row["queue"] for row in state["queues"] if row["topic"] == topic] == [0]
        owners = tool.json("consumer", "progress", group, "--topic", topic, "--owners")["queues"]
        assert owners[0]["client"] in tool.text("consumer", "connections", group)
        done = tool.json("consumer", "reset", group, topic, "--to", "earliest", "--yes")
        assert (done["how"], done["members"]) == ("members", 1)
        eventually(lambda: len(got) >= 6)
        eventually(lambda: lag_is(0))
        by_offset = ("consumer", "reset", group, topic, "--to", "offset:2", "--yes")
        if reported_offsets:
            assert tool.json(*by_offset)["how"] == "members"
            eventually(lambda: len(got) >= 7)
        else:
            assert "stop the members" in tool.fails(*by_offset, status=2)
        eventually(lambda: lag_is(0))
    eventually(lambda: tool.run("consumer", "connections", group)[0] == 1)
    plan = tool.json("consumer", "reset", group, topic, "--to", "offset:1", "--dry-run")
    assert (plan["how"], [(row["before"], row["after"]) for row in plan["queues"]]) == ("planned", [(3, 1)])
    assert lag_is(0)
    done = tool.json("consumer", "reset", group, topic, "--to", "offset:1", "--queue", "broker-a:0", "--yes")
    assert done["how"] == "offsets"
    eventually(lambda: lag_is(2))
    tool.json("consumer", "reset", group, topic, "--to", "2001-01-01T00:00", "--yes")
    eventually(lambda: lag_is(3))
    tool.json("consumer", "reset", group, topic, "--to", "latest", "--yes")
    eventually(lambda: lag_is(0))
    assert "gantry group list" in tool.fails("consumer", "progress", "NoSuchGroup")
    assert "earliest" in tool.fails("consumer", "reset", group, topic, "--to", "soon", status=2)


def cluster(tool: Tool, version: str) -> None:
    """Brokers, their figures, their settings."""
    (row,) = [row for row in tool.json("cluster", "list") if row["broker"] == "broker-a"]
    assert version in row["version"] and row["id"] == 0
    assert "bootTimestamp" in tool.json("cluster", "status", "broker-a")["broker-a"]
    assert version in tool.text("cluster", "list") and "bootTimestamp" in tool.text("cluster", "status")
    before = tool.json("cluster", "config", "show", "--key", "fileReservedTime")["broker-a"]["fileReservedTime"]
    planned = tool.json("cluster", "config", "set", "fileReservedTime=47", "--dry-run")
    assert [(row["before"], row["after"]) for row in planned["settings"]] == [(before, "47")]
    tool.json("cluster", "config", "set", "fileReservedTime=47", "--broker", "broker-a", "--yes")
    assert tool.json("cluster", "config", "show", "-k", "fileReservedTime")["broker-a"] == {"fileReservedTime": "47"}
    tool.json("cluster", "config", "set", f"fileReservedTime={before}", "--yes")
    assert "no such setting" in tool.fails("cluster", "config", "set", "bogus=1", "--yes", status=2)
    assert "broker-a" in tool.fails("cluster", "status", "no-such-broker", status=2), "it says which there are"


def transactions(tool: Tool) -> None:
    """Some are left open; a person looks at them and decides."""
    topic, group = "CliPay", "CliPayers"
    tool.json("topic", "create", topic, "--queues", "1", "--type", "TRANSACTION")
    with undecided_producer(tool.name_servers, group, topic) as producer:
        (committed,) = leave_open(producer, topic, 1, LocalTransactionState.COMMIT)
        (rolled_back,) = leave_open(producer, topic, 1, LocalTransactionState.ROLLBACK)
        first, second = leave_open(producer, topic, 2)
        rows = {row["id"]: row for row in tool.json("transactions", "list", "--group", group)}
        assert {first, second} <= set(rows)
        assert rows[first]["state"] == "open" and rows[first]["topic"] == topic
        eventually(lambda: tool.json("transactions", "show", first)[0]["producers_online"] == 1)
        assert [row["group"] for row in tool.json("consumer", "producers", group)] == [group]
    assert _state(tool, committed) == "committed"
    eventually(lambda: _state(tool, rolled_back) == "rolled back")  # 5.x stores op messages up to 3 s late
    assert "explain" in tool.text("transactions", "list")
    assert first in tool.text("transactions", "explain", first)

    commit = ("transactions", "commit", first)
    assert "--yes" in tool.fails(*commit, "--why", "test", status=2), "nobody can be asked here"
    assert "--why" in tool.fails(*commit, "--yes", status=2)
    assert tool.decisions() == [], "nothing was decided yet"
    assert tool.json(*commit, "--why", "test", "--dry-run")["outcome"] == "dry run"
    assert _state(tool, first) == "open"
    assert tool.json(*commit, "--why", "ticket 1", "--yes")["outcome"] == "committed"
    assert tool.json("transactions", "rollback", second, "--why", "ticket 2", "--yes")["outcome"] == "rolled back"
    eventually(lambda: _state(tool, first) == "committed")
    eventually(lambda: _state(tool, second) == "rolled back")
    delivered = eventually(lambda: len(lines := tool.lines("message", "print", topic)) == 2 and lines)
    assert {line["message_id"] for line in delivered} == {committed, first}
    eventually(lambda: not tool.json("transactions", "list", "--group", group))
    assert "is committed" in tool.fails("transactions", "rollback", first, "--why", "late", "--yes")
    lines = [(line["action"], line["phase"], line["transaction_id"], line["why"]) for line in tool.decisions()]
    assert lines == [
        ("commit", "dry run", first, "test"),
        ("commit", "intended", first, "ticket 1"),
        ("commit", "done", first, "ticket 1"),
        ("rollback", "intended", second, "ticket 2"),
        ("rollback", "done", second, "ticket 2"),
    ]
    for line in tool.decisions():
        assert line["who"] and line["host"] and line["when"].endswith("+00:00")
    assert "no broker has a transaction" in tool.fails("transactions", "show", "F" * 32)


def parked(tool: Tool) -> str:
    """Nobody decided one in time; it is resumed, and decided by a person; its id."""
    topic, group = "CliParked", "CliParkers"
    tool.json("topic", "create", topic, "--queues", "1", "--type", "TRANSACTION")
    with undecided_producer(tool.name_servers, group, topic) as producer:
        (one,) = leave_open(producer, topic, 1)
        eventually(lambda: _state(tool, one) == "parked")
        (row,) = tool.json("transactions", "list", "--group", group)
        assert (row["id"], row["state"]) == (one, "parked") and row["checks"] > 0
        (reported,) = tool.json("transactions", "explain", one)
        assert "gantry transactions resume" in reported["advice"]
        assert [event["event"] for event in reported["events"]][-1] == "parked"
        assert "resume" in tool.fails("transactions", "commit", one, "--why", "x", "--yes")
    assert tool.json("transactions", "resume", one, "--why", "mended", "--yes")["outcome"] == "open again"
    eventually(lambda: _state(tool, one) == "open")
    tool.json("transactions", "commit", one, "--why", "paid", "--yes")
    eventually(lambda: _state(tool, one) == "committed")
    (line,) = eventually(lambda: tool.lines("message", "print", topic))
    assert line["message_id"] == one
    assert not tool.json("transactions", "list", "--group", group)
    return one


def _state(tool: Tool, transaction: str) -> str:
    (row,) = tool.json("transactions", "show", transaction)
    return str(row["state"])
