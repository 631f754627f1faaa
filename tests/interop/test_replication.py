"""A primary of one side and a replica of the other: the log of the replica is equal, byte for byte."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gantrymq import Message, Producer
from gantrymq.demo.ports import free_port
from gantrymq.message.send_status import SendStatus
from tests.interop.apache import ApacheCluster
from tests.interop.mqadmin import Tool
from tests.interop.ours import GantryCluster
from tests.interop.process import poll

TOPIC = "replicated"
ROWS = ("the logs are equal, byte for byte", "the replica has the topics")
SYNC_ROWS = (
    "SYNC_MASTER: SEND_OK when the replica has it, and not before", "SYNC_MASTER: the replica is killed and comes back",
)  # fmt: skip
LOG = Path("commitlog", "0" * 20)


def log_of(store: Path) -> bytes:
    """The records of the first file; what is behind them are zeros."""
    path = store / LOG
    return path.read_bytes().rstrip(b"\0") if path.exists() else b""


def send(name_servers: str, count: int) -> None:
    with Producer("replication", name_servers=name_servers) as producer:
        for number in range(count):
            producer.send(Message(TOPIC, b"%d" % number * 400, keys=f"k{number}"))


def play(clusters: tuple[GantryCluster | ApacheCluster, GantryCluster | ApacheCluster], root: Path) -> None:
    """The replica begins when the log has records, and is killed and started again meanwhile."""
    first, second = clusters
    names = first.name_servers
    first.start_broker(root / "a", name_servers=names, haListenPort=free_port(), brokerRole="ASYNC_MASTER")
    send(names, 40)
    # The name server says where the primary is: a replica of 5.x ignores haMasterAddress, and a primary of 4.9.7
    # ignores haListenPort.
    following = {"brokerRole": "SLAVE", "brokerId": 1}
    replica = second.start_broker(root / "b", name_servers=names, **following)
    send(names, 40)
    poll(lambda: len(log_of(root / "b")) == len(log_of(root / "a")), "whole log of the replica")
    assert log_of(root / "b") == log_of(root / "a")
    replica.kill()
    send(names, 40)
    second.start_broker(root / "b", name_servers=names, **following)
    poll(lambda: len(log_of(root / "b")) == len(log_of(root / "a")), "rest of the log")
    assert log_of(root / "b") == log_of(root / "a")
    assert log_of(root / "a").count(b"k39") >= 3
    topics = root / "b" / "config" / "topics.json"
    poll(lambda: topics.exists() and f'"{TOPIC}"' in topics.read_text(), "topic of the replica")


def status(producer: Producer, body: bytes) -> SendStatus:
    return producer.send(Message(TOPIC, body)).status


def play_sync(clusters: tuple[GantryCluster | ApacheCluster, GantryCluster | ApacheCluster], root: Path) -> None:
    """A SYNC_MASTER says SEND_OK only when the replica has the message, also after the replica was killed."""
    first, second = clusters
    names = first.name_servers
    waiting = {"brokerRole": "SYNC_MASTER", "haListenPort": free_port(), "inSyncReplicas": 2, "slaveTimeout": 1500}
    first.start_broker(root / "a", name_servers=names, **waiting)
    following = {"brokerRole": "SLAVE", "brokerId": 1}
    with Producer("replication", name_servers=names) as producer:

        def replicated(body: bytes) -> bool:
            if status(producer, body) is not SendStatus.SEND_OK:
                return False
            assert body in log_of(root / "b"), "it was acknowledged, and the replica does not have it"
            return True

        assert status(producer, b"nobody else has it") is not SendStatus.SEND_OK
        replica = second.start_broker(root / "b", name_servers=names, **following)
        poll(lambda: replicated(b"both have it"), "SEND_OK with a replica")
        for number in range(20):
            assert replicated(b"number %d of many" % number)
        replica.kill()
        poll(lambda: status(producer, b"while it is away") is not SendStatus.SEND_OK, "answer without the replica")
        second.start_broker(root / "b", name_servers=names, **following)
        poll(lambda: replicated(b"both have it again"), "SEND_OK with the replica that is back")
    poll(lambda: log_of(root / "b") == log_of(root / "a"), "rest of the log")


def look(tool: Tool, primary: GantryCluster | ApacheCluster, end: int) -> None:
    """``mqadmin haStatus``: the primary says how far the replica is."""

    def copied() -> bool:
        text = tool.run("haStatus", "-b", primary.broker_address)
        return bool(re.search(r"#InSyncSlaveNum\s+1\b", text) and re.search(rf"127\.0\.0\.1:\d+\s+{end}\s", text))

    poll(copied, "end of the copy in haStatus")


def pairs(*rows: str) -> pytest.MarkDecorator:
    """Each pair of one of ours and one of Apache's; ``rows`` of docs/compatibility.md."""
    return pytest.mark.parametrize(
        ("ours_is", "version"),
        [
            pytest.param(ours, version, marks=pytest.mark.feature(*rows, column=f"{other} Apache {version}"))
            for ours, other in (("primary", "replica"), ("replica", "primary"))
            for version in ("5.5.0", "4.9.7")
        ],
    )


@pairs(*ROWS)
def test_the_log_of_the_replica_is_equal(jdk: None, tmp_path: Path, ours_is: str, version: str) -> None:
    apache, ours = ApacheCluster(version, tmp_path / "apache"), GantryCluster(tmp_path / "ours")
    try:
        ours.start_name_server()
        apache.name_servers = ours.name_servers
        pair = (ours, apache) if ours_is == "primary" else (apache, ours)
        play(pair, tmp_path)
        if version.startswith("5"):
            look(Tool(version, pair[0], tmp_path / "tool", TOPIC), pair[0], len(log_of(tmp_path / "a")))
    finally:
        ours.close()
        apache.close()


@pairs(*SYNC_ROWS)
def test_a_synchronous_primary_waits_for_the_replica(jdk: None, tmp_path: Path, ours_is: str, version: str) -> None:
    apache, ours = ApacheCluster(version, tmp_path / "apache"), GantryCluster(tmp_path / "ours")
    try:
        ours.start_name_server()
        apache.name_servers = ours.name_servers
        play_sync((ours, apache) if ours_is == "primary" else (apache, ours), tmp_path)
    finally:
        ours.close()
        apache.close()
