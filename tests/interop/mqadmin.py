"""mqadmin of one version in one Java process, and what of its output is compared.

A command costs a second in a process of its own; ``java/Mqadmin.java`` runs them all in one, with a producer and a
consumer online beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.interop import guarded
from tests.interop.apache import ApacheCluster, JavaProcess
from tests.interop.jars import drivers, library
from tests.interop.ours import GantryCluster
from tests.interop.process import poll

CLUSTER = "DefaultCluster"
QUEUES = 4
SENT = 5
SYSTEM_TOPICS = {
    "BenchmarkTest", "DefaultCluster", "DefaultCluster_REPLY_TOPIC", "OFFSET_MOVED_EVENT", "RMQ_SYS_TRANS_HALF_TOPIC",
    "SCHEDULE_TOPIC_XXXX", "SELF_TEST_TOPIC", "TBW102", "broker-a",
}  # fmt: skip
"""Topics that every broker has. Beside them 5.5.0 has some for parts of it that we keep elsewhere or do not have
(``rmq_sys_*``, ``RMQ_SYS_ROCKSDB_*``); and other tests leave theirs in the clusters."""


class Tool:
    """``mqadmin`` against one cluster. ``topic`` and its groups ``P<topic>``, ``C<topic>`` are the residents'."""

    def __init__(
        self,
        version: str,
        cluster: GantryCluster | ApacheCluster,
        directory: Path,
        topic: str,
        properties: dict[str, str] | None = None,
    ) -> None:
        """``properties``: of the system, for its Java process."""
        self.version = version
        self.topic = topic
        self._name_servers = cluster.name_servers
        (directory / "conf").mkdir(parents=True)
        quiet = '<configuration><root level="OFF"/></configuration>\n'
        (directory / "conf/logback_tools.xml").write_text(quiet)  # 4.x does not start without it
        guarded.write_mqadmin_account(directory)
        where = [drivers(f"server-{version}"), library(f"server-{version}")]
        arguments = [self._name_servers]
        self._process = JavaProcess("mqadmin", where, "Mqadmin", arguments, directory, properties=properties)
        self._process.await_step("ready")
        self.broker = ""
        self.sent: list[dict[str, str]] = []

    @property
    def five(self) -> bool:
        return self.version.startswith("5")

    def run(self, *command: str) -> str:
        """What a command prints, errors included."""
        before = self._ended()
        self._process.write_line("\t".join([*command, "-n", self._name_servers]))
        self._process.await_that(lambda: self._ended() > before, " ".join(command))
        text = self._process.text().split("\n@end\n")[before]
        return text[text.index("@begin") :].partition("\n")[2]

    def _ended(self) -> int:
        return self._process.text().count("\n@end\n")

    def start_residents(self) -> None:
        """The topic gets four queues and five messages, which its group consumes."""
        self.run("updateTopic", "-c", CLUSTER, "-t", self.topic, "-r", str(QUEUES), "-w", str(QUEUES))
        self._process.write_line(f"!residents\t{self.topic}")
        self._process.await_step("residents")
        self.sent = self._process.steps("sent")
        self.broker = re.findall(r"127\.0\.0\.1:\d+", self.run("clusterList"))[0]
        poll(self._all_committed, "committed offsets")
        poll(self._all_counted, "figures of the day")  # Apache's brokers count every ten seconds

    def _all_committed(self) -> bool:
        """Whether the group's progress has every queue of the topic: at first only the retry topic may be in it."""
        text = self.run("consumerProgress", "-g", f"C{self.topic}")
        rows = [line for line in text.splitlines() if line.startswith(f"{self.topic} ")]
        return len(rows) == QUEUES and "Diff Total: 0" in text

    def _all_counted(self) -> bool:
        """Whether the broker's statistics have the messages, as sent and as consumed."""
        rows = [line.split() for line in self.run("statsAll", "-t", self.topic).splitlines()]
        return any(row[:2] == [self.topic, f"C{self.topic}"] and row[-2:] == [str(SENT)] * 2 for row in rows)

    def close(self) -> None:
        self._process.kill()


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and what it printed."""

    row: str
    """The command's name: a row of docs/compatibility.md."""
    arguments: str
    text: str


def play(tool: Tool) -> Iterator[Step]:
    """Every command, in an order in which each finds what it needs."""
    tool.start_residents()
    for command in (*_topics(tool), *_cluster(tool), *_messages(tool), *_clients(tool), *_changes(tool)):
        yield Step(command[0], " ".join(command).replace(tool.broker, "BROKER"), tool.run(*command))


Commands = Iterator[tuple[str, ...]]
EVERYWHERE = ("-c", CLUSTER)


def _topics(tool: Tool) -> Commands:
    topic = tool.topic
    message_type = ("-a", "+message.type=TRANSACTION") if tool.five else ()
    yield "updateTopic", *EVERYWHERE, "-t", f"{topic}Typed", *message_type
    yield "updateTopic", "-b", tool.broker, "-t", f"{topic}Ordered", "-r", "2", "-w", "2", "-o", "true"
    yield "updateTopic", "-b", tool.broker, "-t", "bad name"
    yield ("topicList",)
    yield "topicList", "-c"
    yield "topicRoute", "-t", topic
    yield "topicRoute", "-t", "NoSuchTopic"
    yield "topicClusterList", "-t", topic
    yield "topicStatus", "-t", topic
    yield "topicStatus", "-t", "NoSuchTopic"


def _cluster(tool: Tool) -> Commands:
    at = ("-b", tool.broker)
    yield ("clusterList",)
    yield "clusterList", "-m"
    yield "brokerStatus", *at
    yield ("statsAll",)
    yield "statsAll", "-a", "-t", tool.topic
    yield "getBrokerConfig", *at
    yield "updateBrokerConfig", *at, "-k", "fileReservedTime", "-v", "73"
    yield "getBrokerConfig", *at
    yield "updateBrokerConfig", *at, "-k", "fileReservedTime", "-v", "72"


def _messages(tool: Tool) -> Commands:
    topic = tool.topic
    yield "queryMsgById", "-i", tool.sent[4]["offsetMsgId"], *(("-t", topic) if tool.five else ())
    for key in ("key3", "all", "absent"):
        yield "queryMsgByKey", "-t", topic, "-k", key
    yield "queryMsgByUniqueKey", "-t", topic, "-i", tool.sent[2]["msgId"]
    yield "queryMsgByOffset", "-t", topic, "-b", "broker-a", "-i", "0", "-o", "1"
    yield "printMsg", "-t", topic
    yield "printMsg", "-t", topic, "-s", "TagB", "-d", "true"


def _clients(tool: Tool) -> Commands:
    topic, group = tool.topic, f"C{tool.topic}"
    yield "consumerProgress", "-g", group
    yield ("consumerProgress",)
    yield "consumerStatus", "-g", group
    yield "consumerStatus", "-g", group, "-i", "nobody"
    yield "consumerConnection", "-g", group
    yield "consumerConnection", "-g", "NoSuchGroup"
    yield "producerConnection", "-g", f"P{topic}", "-t", topic
    yield "producerConnection", "-g", "NoSuchGroup", "-t", topic
    yield "producer", "-b", tool.broker


def _changes(tool: Tool) -> Commands:
    topic, group, made = tool.topic, f"C{tool.topic}", f"C{tool.topic}Made"
    yield "updateSubGroup", *EVERYWHERE, "-g", made
    yield "updateSubGroup", "-b", tool.broker, "-g", made, "-s", "false", "-r", "3"
    yield "sendMessage", "-t", topic, "-p", "hello", "-k", "sent", "-c", "TagC", "-b", "broker-a", "-i", "1"
    yield "consumeMessage", "-t", topic, "-b", "broker-a", "-i", "1", "-o", "0", "-c", "1"
    yield "consumeMessage", "-t", topic, "-b", "broker-a", "-i", "1", "-o", "1", "-c", "1"
    yield "checkMsgSendRT", "-t", topic, "-a", "3", "-s", "16"
    yield "resetOffsetByTime", "-g", group, "-t", topic, "-s", "0"
    if tool.five:  # in 4.9 members reset their offsets themselves, so a group without members is refused
        yield "resetOffsetByTime", "-g", made, "-t", topic, "-s", "now"
    yield "deleteSubGroup", *EVERYWHERE, "-g", made
    yield "deleteTopic", *EVERYWHERE, "-t", f"{topic}Ordered"
    yield "topicRoute", "-t", f"{topic}Ordered"


# What is compared.

NOISE = re.compile(
    r"\d\d:\d\d:\d\d,\d+ \|-"  # Apache's logger tells how it was set up
    r"|\s+at [\w.$/]+\(|\s*\.\.\. \d+ more"  # where in the tool an error came up
    r"|For more information|See http|\s*$"
    r"|%RETRY%\w+\s+broker-a\s+0\s+0\s+0"  # progress in the retry topic: there once the consumer committed in it
)
NORMAL = (
    (r"\d+\.\d+\.\d+\.\d+:\d+", "ADDRESS"),
    (r"\d+\.\d+\.\d+\.\d+@", "IP@"),
    (r"\b[0-9A-F]{32}\b", "ID"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d+)?", "TIME"),
    (r"\b1\d{12}\b", "MILLISECONDS"),
    (r"\bV\d_\d_\d+\b|GantryMQ \d\S*|\bversion=\d+", "VERSION"),
    # Rates and shares of the disk depend on the moment and on what else the broker did.
    (r"\b\d+\.\d+(E-?\d+)?\b", "RATE"),
    # Of an error the code counts; the words are each broker's own.
    (r"(CODE: \d+).*", r"\1"),
    (r"CODE: 29\b", "CODE: 1"),  # what 5.x calls INVALID_PARAMETER is a SYSTEM_ERROR in 4.9
    # Where a record lies and how long it is: other tests write to the same log, and 4.9.7 stores fewer properties.
    (r"(CommitLog Offset:|commitLogOffset=|storeSize=)\s*\d+", r"\1 N"),
    (r"(@ID@)\d+", r"\1N"),
    (r"(true) +\d+$", r"\1 N"),
    # Region and trace switch are stored with a message since 5.0, WAIT is kept.
    (r"\b(MSG_REGION|TRACE_ON|WAIT)=\w+(, )?", ""),
    (r", }", "}"),
    (r"[ \t]+", " "),
    # What a broker is busy with at a moment: requests that wait, how far its timers are, the wait for the page cache.
    (r"RATE\([\dms,|]+\)", "RATE(LOAD)"),
    (r"\b\d+-\d+\(\S+, RATE, RATE\) \d+ ", "PROGRESS WAIT "),
    # Messages a second that a group consumes, rounded: 0 or 1 here, by the moment.
    (r"(CLUSTERING) \d+ (\d+)$", r"\1 RATE \2"),
)
"""Pattern and what stands for it in a comparison."""


def normal(text: str) -> list[str]:
    """The lines of an output without what differs from run to run, sorted: the tools print in the order of hashes."""
    lines = [line.rstrip() for line in text.splitlines() if not NOISE.match(line)]
    for pattern, stands_for in NORMAL:
        lines = [re.sub(pattern, stands_for, line) for line in lines]
    return sorted(_sorted_properties(line.strip()) for line in lines)


def _sorted_properties(line: str) -> str:
    def in_order(found: re.Match[str]) -> str:
        return "{" + ", ".join(sorted(found[1].split(", "))) + "}"

    return re.sub(r"\{(\w+=[^{}]*)\}", in_order, line)


def about(lines: list[str], name: str) -> list[str]:
    """Of a list of everything, what belongs to the tests of this version, or is a heading; and the system topics.

    Of these only that they are there: who uses them, and how much, depends on the other tests that share the clusters.
    """
    found: list[str] = []
    for line in lines:
        system = sorted((set(line.split()) - {CLUSTER}) & SYSTEM_TOPICS)
        if line.startswith("#") or name in line or line == CLUSTER:
            found.append(line)
        elif system and system[0] not in found:
            found.append(system[0])
    return found


def settings(text: str) -> dict[str, str]:
    """The ``key = value`` or ``key : value`` lines of an output."""
    pairs = (re.match(r"\s*([\w/.-]+)\s*[=:]\s?(.*)", line) for line in text.splitlines() if not NOISE.match(line))
    return {pair[1]: pair[2].strip() for pair in pairs if pair is not None}
