"""A member that consumes in order is killed: the others have its queues long before its locks end by themselves."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gantrymq import Message, Producer, PushConsumer
from gantrymq.message.heartbeat import ConsumeFromWhere
from gantrymq.message.message import MessageView
from tests.kill.server import Server
from tests.support.tied import tied

TOPIC, GROUP = "Ordered", "in-order"
QUEUES = 4
LOCK_S = 60.0
"""So long the queues stood still before."""
LIMIT_S = 40.0

MEMBER = """
import sys, time
from gantrymq import PushConsumer
from gantrymq.message.heartbeat import ConsumeFromWhere
def listener(messages):
    for message in messages:
        sys.stdout.write(f"{message.queue.queue_id} {message.body.decode()}\\n")  # one write: a thread for each queue
        sys.stdout.flush()
with PushConsumer("in-order", name_servers=sys.argv[1], listener=listener, orderly=True,
                  from_where=ConsumeFromWhere.FIRST_OFFSET).subscribe("Ordered"):
    time.sleep(600)
"""


@pytest.mark.kill
def test_the_queues_of_a_killed_member_are_consumed_soon(tmp_path: Path) -> None:
    server = Server(tmp_path, "SYNC_FLUSH", "orderlyLockGrace=1000\n")
    member: subprocess.Popen[bytes] | None = None
    try:
        server.start()
        with Producer("PG", name_servers=server.name_servers, default_topic_queue_nums=QUEUES) as producer:
            _send(producer, "first")
            command = [sys.executable, "-c", MEMBER, server.name_servers]
            member = subprocess.Popen(tied(command), stdout=subprocess.PIPE)
            assert member.stdout is not None
            consumed: set[bytes] = set()
            while len(consumed) < QUEUES:  # it has all locks
                line = member.stdout.readline()
                assert line, "the member has ended"
                consumed |= {line.split()[0]} if b"first" in line else set()
            seconds = _killed_and_followed(server, producer, member)
        print(f"the queues of the killed member were consumed again after {seconds:.1f} s")
        assert seconds < LIMIT_S < LOCK_S
    finally:
        if member is not None:
            member.kill()
            member.wait()
        server.kill()


def _killed_and_followed(server: Server, producer: Producer, member: subprocess.Popen[bytes]) -> float:
    """Seconds from the kill until another member has consumed a message of each queue."""
    found: set[int] = set()
    wrong: list[str] = []
    done = threading.Event()

    def listener(messages: list[MessageView]) -> None:
        for message in messages:
            if message.body == b"second":
                found.add(message.queue.queue_id)
            elif message.queue.queue_id in found:
                wrong.append(f"queue {message.queue.queue_id}: {message.body.decode()} comes behind a later one")
        if len(found) == QUEUES:
            done.set()

    member.kill()
    member.wait()
    began = time.monotonic()
    with PushConsumer(
        GROUP, name_servers=server.name_servers, listener=listener, orderly=True,
        from_where=ConsumeFromWhere.FIRST_OFFSET,
    ).subscribe(TOPIC):  # fmt: skip
        _send(producer, "second")
        assert done.wait(2 * LOCK_S)
    assert wrong == []
    return time.monotonic() - began


def _send(producer: Producer, body: str) -> None:
    """One message into each queue."""
    if body == "first":
        producer.send(Message(TOPIC, b"makes the topic"))
    for queue in sorted(producer.queues(TOPIC)):
        producer.send(Message(TOPIC, body.encode()), queue=queue)
