"""All features that must work with official software, as the rows and columns of docs/compatibility.md.

A test names its row with ``@pytest.mark.feature("row")``. Its column follows from its fixtures, or is given as
``column=``. A row without a test appears as "not yet", so no feature can be missing silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

JAVA_4, JAVA_5, GO = "Java 4.9.8 on GantryMQ", "Java 5.5.0 on GantryMQ", "Go v2.1.2 on GantryMQ"
OURS, APACHE_4, APACHE_5 = "GantryMQ on GantryMQ", "GantryMQ on Apache 4.9.7", "GantryMQ on Apache 5.5.0"
NOT_IN_4 = "not in RocketMQ 4"


@dataclass(frozen=True, slots=True)
class Section:
    """One table."""

    title: str
    intro: str
    columns: tuple[str, ...]
    rows: tuple[str, ...]
    apart: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(row, column) to why there is nothing to show."""


def _apart(rows: tuple[str, ...], columns: tuple[str, ...], why: str) -> dict[tuple[str, str], str]:
    return {(row, column): why for row in rows for column in columns}


_SIMPLE = ("simple consumer: receive, ack, change", "simple consumer: in order")
"""The official ones speak gRPC: tests/interop/test_five_clients.py."""

CLIENTS = Section(
    "Clients",
    "The official Java and Go clients with our servers, and our client with Apache's servers and with ours.",
    (JAVA_4, JAVA_5, GO, OURS, APACHE_4, APACHE_5),
    (
        "send: sync, async, one-way",
        "send: ordered",
        "send: batch",
        "send: delay level",
        "send: timer",
        "send: recall",
        "send: compressed",
        "send: request-reply",
        "send: too big is refused",
        "transaction: commit",
        "transaction: rollback",
        "transaction: unknown, then check",
        "transaction: producer killed, sibling checked",
        "push: concurrent",
        "push: orderly",
        "push: broadcast",
        "push: retry and dead letter",
        "push: POP",
        "push: offset reset",
        "push: rebalance",
        "filter: tags",
        "filter: SQL92",
        "pull: lite pull, seek",
        "pull: pull consumer",
        *_SIMPLE,
        "query: id, key, unique key",
        "message trace",
        "namespace",
        "binary headers",
        "fast port",
        "mixed group",
    ),
    {
        **_apart(("send: timer", "send: recall", "push: POP"), (JAVA_4, APACHE_4), NOT_IN_4),
        **_apart(
            (
                "send: timer",
                "send: recall",
                "push: POP",
                "pull: lite pull, seek",
                "fast port",
                "query: id, key, unique key",
                "push: offset reset",
            ),
            (GO,),
            "not in this client",
        ),
        **_apart(("push: POP",), (OURS, APACHE_5), "our client has no POP mode"),
        **_apart(_SIMPLE, (JAVA_4, APACHE_4), NOT_IN_4),
        **_apart(_SIMPLE, (JAVA_5, GO), "over gRPC"),
        **_apart(_SIMPLE, (APACHE_5,), "a control, run alone"),
        **_apart(("binary headers", "fast port"), (OURS, APACHE_4, APACHE_5), "our client speaks JSON headers"),
        **_apart(("mixed group",), (JAVA_4, JAVA_5, GO), "see the columns of our client"),
        **_apart(("binary headers",), (GO,), "this client speaks JSON headers"),
    },
)

COMMANDS = Section(
    "mqadmin",
    "Each command of both versions runs on our broker; the output is compared with that of Apache's broker in the same "
    "state.",
    ("mqadmin 4.9.7", "mqadmin 5.5.0"),
    (
        "topicList", "updateTopic", "deleteTopic", "topicRoute", "topicStatus", "topicClusterList", "clusterList",
        "brokerStatus", "statsAll", "queryMsgById", "queryMsgByKey", "queryMsgByUniqueKey", "queryMsgByOffset",
        "printMsg", "consumerProgress", "consumerStatus", "consumerConnection", "producerConnection", "producer",
        "updateSubGroup", "deleteSubGroup", "resetOffsetByTime", "getBrokerConfig", "updateBrokerConfig",
        "sendMessage", "consumeMessage", "checkMsgSendRT",
    ),
)  # fmt: skip

SWAP = Section(
    "Store directories",
    "One broker writes a store directory; the other one opens the same directory and continues.",
    ("ours to Apache 5.5.0", "ours to Apache 4.9.7", "Apache 5.5.0 to ours", "Apache 4.9.7 to ours"),
    (
        "messages and queries",
        "open and ended transactions",
        "consumer offsets",
        "delayed messages",
        "timer messages",
        "popped messages",
        "after SIGKILL",
        "there and back",
    ),
    _apart(("timer messages", "popped messages"), ("ours to Apache 4.9.7", "Apache 4.9.7 to ours"), NOT_IN_4),
)

MIXED = Section(
    "Mixed clusters",
    "An Apache broker and our broker are registered at one name server.",
    ("name server Apache 5.5.0", "name server Apache 4.9.7", "name server GantryMQ"),
    ("Java client over both", "our client over both", "transactions over both", "Spark source over both"),
)

SECOND_MACHINE = Section(
    "A second machine",
    "A primary of one side, and a replica of the other that is killed meanwhile, by RocketMQ's default HA protocol. "
    "Each pair is tried with an ASYNC_MASTER and with a SYNC_MASTER, whose answers must say what the replica has.",
    ("replica Apache 5.5.0", "replica Apache 4.9.7", "primary Apache 5.5.0", "primary Apache 4.9.7"),
    (
        "the logs are equal, byte for byte",
        "the replica has the topics",
        "SYNC_MASTER: SEND_OK when the replica has it, and not before",
        "SYNC_MASTER: the replica is killed and comes back",
    ),
)

SPARK = Section(
    "Spark",
    "The Spark data source, the pipelines and the sink work with Apache's servers.",
    ("Apache 4.9.7", "Apache 5.5.0"),
    ("batch source", "streaming source", "pipeline order-paid", "pipeline reconcile", "sink, at_least_once"),
)

CLI = Section(
    "gantry commands",
    "Our command line works with Apache's servers and with ours.",
    ("on GantryMQ", "on Apache 4.9.7", "on Apache 5.5.0"),
    ("topic", "group", "message", "consumer", "cluster", "transactions"),
)

SECTIONS = (CLIENTS, COMMANDS, SWAP, MIXED, SECOND_MACHINE, SPARK, CLI)
