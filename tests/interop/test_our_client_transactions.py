"""Our transaction producer against Apache's servers and ours: the same bodies of tests for each."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import gantrymq
from gantrymq import ConsumeFromWhere, LocalTransactionState, Message, MessageView
from gantrymq.message import properties
from tests.interop.apache import ApacheCluster
from tests.interop.our_client import PATIENT, SOON, Inbox, Server, make_topic, until

COMMIT, ROLLBACK, UNKNOWN = (
    LocalTransactionState.COMMIT,
    LocalTransactionState.ROLLBACK,
    LocalTransactionState.UNKNOWN,
)


class Decisions:
    """A listener that does as the body says: ``<executed> [<checked>]``, e.g. ``UNKNOWN COMMIT``."""

    def __init__(self, decisive: bool = False) -> None:
        self.decisive = decisive
        self.checked: list[str] = []
        self._lock = threading.Lock()

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return LocalTransactionState[message.body.decode().split()[0]]

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        with self._lock:
            self.checked.append(message.body.decode())
        return LocalTransactionState[message.body.decode().split()[1]]


def consumer_of(server: Server, topic: str, inbox: Inbox) -> gantrymq.PushConsumer:
    consumer = gantrymq.PushConsumer(
        f"G{topic}", name_servers=server.name_servers, listener=inbox, from_where=ConsumeFromWhere.FIRST_OFFSET, **SOON
    )
    return consumer.subscribe(topic)


@pytest.mark.feature("transaction: commit", "transaction: rollback", "transaction: unknown, then check")
def test_transactions_end_as_the_listener_says(server: Server) -> None:
    topic = make_topic(server, "OurTransactions", message_type="TRANSACTION")
    inbox, listener = Inbox(), Decisions()
    bodies = ["COMMIT", "ROLLBACK", "UNKNOWN COMMIT", "UNKNOWN ROLLBACK", "COMMIT again"]
    producer = gantrymq.TransactionProducer(f"P{topic}", name_servers=server.name_servers, listener=listener, **PATIENT)
    with consumer_of(server, topic, inbox), producer:
        results = {body: producer.send_in_transaction(Message(topic, body, keys="order"), arg=body) for body in bodies}
        assert {body: (result.state, result.decided) for body, result in results.items()} == {
            "COMMIT": (COMMIT, True),
            "ROLLBACK": (ROLLBACK, True),
            "UNKNOWN COMMIT": (UNKNOWN, False),
            "UNKNOWN ROLLBACK": (UNKNOWN, False),
            "COMMIT again": (COMMIT, True),
        }
        inbox.wait(["COMMIT", "COMMIT again", "UNKNOWN COMMIT"])
        until(lambda: set(listener.checked) == {"UNKNOWN COMMIT", "UNKNOWN ROLLBACK"}, listener.checked)
    assert sorted(inbox.bodies) == ["COMMIT", "COMMIT again", "UNKNOWN COMMIT"]
    view = next(view for view in inbox.views if view.body == b"UNKNOWN COMMIT")
    assert view.transaction_id == results["UNKNOWN COMMIT"].transaction_id and view.topic == topic


DIES_IN_ITS_TRANSACTION = """
import os, sys
import gantrymq

class Dies:
    decisive = sys.argv[4] == "True"

    def execute_local_transaction(self, message, arg):
        os._exit(7)

    def check_local_transaction(self, message):
        return gantrymq.LocalTransactionState.UNKNOWN

name_servers, group, topic = sys.argv[1:4]
producer = gantrymq.TransactionProducer(group, name_servers=name_servers, listener=Dies(), send_timeout_ms=20_000)
producer.start()
producer.send_in_transaction(gantrymq.Message(topic, "UNKNOWN COMMIT"))
"""


@pytest.mark.feature("transaction: producer killed, sibling checked")
@pytest.mark.parametrize("decisive", [False, True])
def test_a_sibling_answers_for_a_producer_that_died_in_its_local_transaction(server: Server, decisive: bool) -> None:
    """Apache's brokers take no notice of the mark that says that the checker is decisive, and leave it where it is."""
    topic = make_topic(server, "OurOrphanDecisive" if decisive else "OurOrphan", message_type="TRANSACTION")
    inbox, listener = Inbox(), Decisions(decisive)
    sibling = gantrymq.TransactionProducer(
        f"P{topic}", name_servers=server.name_servers, listener=listener, topics=topic, **PATIENT
    )
    with consumer_of(server, topic, inbox), sibling:
        died = subprocess.run(
            [sys.executable, "-c", DIES_IN_ITS_TRANSACTION, server.name_servers, f"P{topic}", topic, str(decisive)],
            env=dict(os.environ), check=False, timeout=120,
        )  # fmt: skip
        assert died.returncode == 7
        inbox.wait(["UNKNOWN COMMIT"])
    assert set(listener.checked) == {"UNKNOWN COMMIT"} and inbox.bodies == ["UNKNOWN COMMIT"]
    mark = inbox.views[0].properties.get(properties.IMMUNE_WHILE_CONNECTED)
    assert mark == (f"P{topic}" if decisive else None)


@pytest.mark.feature("message trace")
def test_the_trace_is_read_by_mqadmin(server: Server, jdk: None, tmp_path: Path) -> None:
    topic = make_topic(server, "OurTraced")
    inbox = Inbox()
    producer = gantrymq.TransactionProducer(
        f"P{topic}", name_servers=server.name_servers, listener=Decisions(), trace=True, **PATIENT
    )
    consumer = gantrymq.PushConsumer(
        f"G{topic}", name_servers=server.name_servers, listener=inbox, from_where=ConsumeFromWhere.FIRST_OFFSET,
        trace=True, **SOON,
    )  # fmt: skip
    with consumer.subscribe(topic), producer:
        producer.send(Message(topic, "plain", tags="T", keys="k"))
        message_id = producer.send_in_transaction(Message(topic, "COMMIT")).message_id
        inbox.wait(["plain", "COMMIT"])
    tools = server if isinstance(server, ApacheCluster) else ApacheCluster("5.5.0", tmp_path)
    said = tools.mqadmin("queryMsgTraceById", "-i", message_id, name_servers=server.name_servers)
    assert "Pub" in said and f"P{topic}" in said and "success" in said, said
    assert "Sub" in said and f"G{topic}" in said, said
