"""Apache's controller elects the primary of a group that has brokers of ours, or of both sides."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest

from gantrymq import Message, Producer
from gantrymq.demo.ports import free_port
from gantrymq.errors import GantryError, RouteNotFound
from gantrymq.message.send_status import SendStatus
from tests.interop.apache import ApacheCluster
from tests.interop.conftest import CONTROLS
from tests.interop.controller_group import asked
from tests.interop.mqadmin import Tool
from tests.interop.ours import GantryCluster
from tests.interop.process import Process, poll
from tests.interop.test_replication import log_of
from tests.support.controller_contract import play

TOPIC, NAME = "elected", "broker-a"
MODE = {"enableControllerMode": "true", "brokerRole": "SLAVE", "brokerId": -1, "minInSyncReplicas": 1}
OURS: dict[str, Any] = {**MODE, "primaryLease": 1000}
"""A group of ours begins sooner with a short lease."""
APACHE: dict[str, Any] = {**MODE, "allAckInSyncStateSet": "true"}

SURPLUS = b"<nobody else has it>"
LONG = pytest.mark.skipif(not os.environ.get(CONTROLS), reason=f"long; {CONTROLS}=1 runs it")


class Mixed:
    """A controller, a name server of ours, and brokers of one name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.apache, self.ours = ApacheCluster("5.5.0", root / "apache"), GantryCluster(root / "ours")

    def __enter__(self) -> Mixed:
        self.apache.start_controller()
        self.ours.start_name_server()
        self.apache.name_servers = self.ours.name_servers
        return self

    def __exit__(self, *_: object) -> None:
        self.ours.close()
        self.apache.close()

    def start(self, side: str, store: str, **conf: Any) -> tuple[Process, str]:
        """A broker of one side, and its address."""
        given = {"controllerAddr": self.apache.controller, **conf}
        if side == "Apache":
            started = self.apache.start_broker(self.root / store, name=NAME, **{**APACHE, **given})
            return started, self.apache.broker_address
        started = self.ours.start_broker(self.root / store, haListenPort=free_port(), **{**OURS, **given})
        return started, self.ours.broker_address

    def await_primary(self, address: str) -> None:
        poll(lambda: asked(self.apache.controller, NAME).master_address == address, f"election of {address}")

    def await_set(self, size: int) -> None:
        poll(lambda: len(asked(self.apache.controller, NAME).in_sync_replicas) == size, f"{size} brokers in sync")

    def send(self, what: str, count: int = 40) -> set[bytes]:
        """What was acknowledged."""
        bodies = {b"<%s %d>" % (what.encode(), number) for number in range(count)}
        with Producer("elected", name_servers=self.ours.name_servers) as producer:
            poll(lambda: finds(producer), "route")  # name servers learn of a new primary a moment later
            for body in sorted(bodies):
                assert producer.send(Message(TOPIC, body)).status is SendStatus.SEND_OK
        return bodies

    def await_equal(self) -> None:
        """Both have the same log, and the topic: Apache's replicas ask for topics every ten seconds only."""
        poll(lambda: log_of(self.root / "a") == log_of(self.root / "b"), "equal logs")
        poll(lambda: all(has_topic(self.root / store) for store in ("a", "b")), "topic of both")


def finds(producer: Producer) -> bool:
    """Whether name servers know who takes the topic, or who would make it."""
    try:
        producer.send(Message(TOPIC, b"is anybody there?"))
    except RouteNotFound:
        return False
    return True


def has_topic(root: Path) -> bool:
    table = root / "config/topics.json"
    return table.exists() and f'"{TOPIC}"' in table.read_text()


def has_all(root: Path, bodies: set[bytes]) -> bool:
    log = log_of(root)
    return all(log.count(body) == 1 for body in bodies)


def leads(controller: str) -> bool:
    try:
        return asked(controller, NAME) is not None
    except (OSError, AssertionError):
        return False


@LONG
def test_apaches_controller_answers_as_the_one_that_our_tests_have(jdk: None, tmp_path: Path) -> None:
    apache = ApacheCluster("5.5.0", tmp_path)
    try:
        apache.start_controller()
        poll(lambda: leads(apache.controller), "leader")
        asyncio.run(asyncio.wait_for(play(apache.controller), 120))
    finally:
        apache.close()


def test_ours_are_elected_and_take_the_place_of_a_primary_that_is_killed(jdk: None, tmp_path: Path) -> None:
    with Mixed(tmp_path) as group:
        first, address = group.start("ours", "a")
        group.await_primary(address)
        sent = group.send("alone")
        _, other = group.start("ours", "b")
        group.await_set(2)
        tool = Tool("5.5.0", group.ours, tmp_path / "tool", "Unused")
        try:
            text = tool.run("getSyncStateSet", "-a", group.apache.controller, "-b", NAME)
            assert re.search(rf"#MasterAddr\s+{re.escape(address)}\b", text) and other in text, text
            epochs = tool.run("getBrokerEpoch", "-b", NAME)
            assert len(re.findall(r"[Ee]poch[=:]\s*1\b", epochs)) >= 2, epochs
        finally:
            tool.close()
        sent |= group.send("together")
        first.kill()
        sent |= group.send("behind the loss")  # the producer waits for the other one
        assert asked(group.apache.controller, NAME).master_address == other
        assert has_all(tmp_path / "b", sent)
        first, address = group.start("ours", "a")
        group.await_set(2)
        sent |= group.send("again together")
        group.await_equal()
        assert has_all(tmp_path / "a", sent)


@LONG
@pytest.mark.parametrize(("first", "second"), [("ours", "Apache"), ("Apache", "ours")])
def test_a_broker_of_the_other_side_takes_the_place_and_gives_it_back(
    jdk: None, tmp_path: Path, first: str, second: str
) -> None:
    with Mixed(tmp_path) as group:
        one, address = group.start(first, "a")
        group.await_primary(address)
        sent = group.send("alone")
        other, other_address = group.start(second, "b")
        group.await_set(2)
        sent |= group.send("together")
        group.await_equal()
        one.kill()
        group.await_primary(other_address)
        sent |= group.send("the other one")
        one, address = group.start(first, "a")
        group.await_set(2)
        sent |= group.send("together again")
        group.await_equal()
        other.kill()
        group.await_primary(address)
        sent |= group.send("back")
        assert has_all(tmp_path / "a", sent)


@LONG
def test_what_only_a_primary_of_ours_had_is_kept_when_it_follows_one_of_apache(jdk: None, tmp_path: Path) -> None:
    """The replica is lost first, so nobody acknowledges what the primary writes alone. Then the primary is lost, and
    only the replica comes back, which has everything that was acknowledged. (A primary of Apache would take the lost
    replica out of the set at once, and nobody else could be elected.)"""
    first, second = "ours", "Apache"
    with Mixed(tmp_path) as group:
        both = {"minInSyncReplicas": 2}
        one, address = group.start(first, "a", **both)
        group.await_primary(address)
        other, _ = group.start(second, "b")
        group.await_set(2)
        sent = group.send("together")
        group.await_equal()
        other.kill()
        end = len(log_of(tmp_path / "a"))
        with Producer("surplus", name_servers=group.ours.name_servers, send_timeout_ms=3000) as producer:
            try:
                status = producer.send(Message(TOPIC, SURPLUS)).status
            except GantryError:
                pass
            else:
                assert status is not SendStatus.SEND_OK
        one.kill()
        alone = len(log_of(tmp_path / "a")) > end
        other, other_address = group.start(second, "b")
        group.await_primary(other_address)
        sent |= group.send("the other one")
        group.start(first, "a", **both)
        group.await_set(2)
        sent |= group.send("together again")
        group.await_equal()
        assert has_all(tmp_path / "a", sent) and SURPLUS not in log_of(tmp_path / "a")
        kept = list((tmp_path / "a/gantry/surplus").glob("*"))
        assert kept or not alone
