"""Starts one version on the store of another one: ``python -m tests.upgrade.run forth|back COMMIT``.

``forth``: COMMIT writes a store, and this checkout starts on it. ``back``: the other way round. ``golden COMMIT`` lets
COMMIT write the store that the tests keep (``tests/golden/upgrade/store.tar.gz``). A version is a directory of sources;
the one of COMMIT is unpacked into a temporary place. What is written and judged uses this checkout's client.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gantrymq import Admin, LocalTransactionState, Message, Producer, PullConsumer, TransactionListener
from gantrymq import TransactionProducer as Transactional
from tests.kill.server import Server

ROOT: Final = Path(__file__).resolve().parents[2]
GOLDEN: Final = ROOT / "tests" / "golden" / "upgrade" / "store.tar.gz"
LATER_LEVEL: Final = 18
"""Two hours: such a message is delivered long after the store was written."""
# An undecided half message stays open while the store is written, and nothing is deleted by its age afterwards.
SETTINGS: Final = "transactionTimeOut=3600000\nfileReservedTime=1000000\n"
PLAIN, KINDS, HALVES, DELAYED = "plain", "typed", "halves", "delayed"
GROUP: Final = "readers"


class Undecided(TransactionListener):
    """Never says how a local transaction ended."""

    def execute_local_transaction(self, message: object, argument: object = None) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


@contextlib.contextmanager
def serving(root: Path, source: Path) -> Iterator[Server]:
    """A server of the version whose sources are in ``source``, on the store of ``root``."""
    server = Server(root, "SYNC_FLUSH", SETTINGS)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(source)
    try:
        server.start()
        yield server
        server.stop()
    finally:
        server.kill()
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def fill(name_servers: str) -> None:
    """Something of each kind that a store keeps."""
    with Admin(name_servers) as admin:
        for topic, kind in ((PLAIN, None), (KINDS, "FIFO"), (HALVES, "TRANSACTION"), (DELAYED, "DELAY")):
            admin.create_topic(topic, queues=1, message_type=kind)
    with Producer("writers", name_servers=name_servers) as producer:
        for number in range(10):
            producer.send(Message(PLAIN, f"plain-{number}", keys=f"key-{number}"))
        producer.send(Message(DELAYED, "later", delay_level=LATER_LEVEL))
    with Transactional("tellers", name_servers=name_servers, listener=Undecided()) as producer:
        for number in range(3):
            producer.send_in_transaction(Message(HALVES, f"half-{number}"))
    with PullConsumer(GROUP, name_servers=name_servers) as consumer:
        (queue,) = consumer.queues(PLAIN)
        consumer.commit(queue, 4)


def judge(name_servers: str) -> None:
    """What ``fill`` wrote is there, and the store goes on. Raises AssertionError."""
    with PullConsumer(GROUP, name_servers=name_servers) as consumer:
        (queue,) = consumer.queues(PLAIN)
        found = [message.body for message in consumer.pull(queue, 0).messages]
        assert found[:10] == [b"plain-%d" % number for number in range(10)], found
        assert consumer.committed(queue) == 4
        with Producer("writers", name_servers=name_servers) as producer:
            place = producer.send(Message(PLAIN, "one more"))
        assert place.queue_offset == len(found), (place, found)
        (hidden,) = consumer.queues(HALVES)
        assert not consumer.pull(hidden, 0).messages, "a half message is visible"
    with Admin(name_servers) as admin:
        (message,) = admin.messages.by_key(PLAIN, "key-7")
        assert message.body == b"plain-7"
    for topic, kind in ((KINDS, "FIFO"), (HALVES, "TRANSACTION"), (DELAYED, "DELAY")):
        assert kind in gantry("topic", "show", topic, "--json", "-n", name_servers), topic
    undecided = json.loads(gantry("transactions", "list", "--json", "-n", name_servers))
    listed = undecided if isinstance(undecided, list) else undecided["transactions"]
    assert len(listed) == 3, undecided


def gantry(*words: str) -> str:
    """What a command of this checkout prints."""
    done = subprocess.run([sys.executable, "-m", "gantrymq.cli.main", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def sources_of(commit: str) -> Iterator[Path]:
    """The sources of a commit, unpacked."""
    with tempfile.TemporaryDirectory() as directory:
        packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(directory, filter="data")
        yield Path(directory, "src")


def write_and_judge(root: Path, writes: Path, starts: Path) -> None:
    """One version writes a store, and another one starts on it, and finds everything."""
    with serving(root, writes) as server:
        fill(server.name_servers)
    with serving(root, starts) as server:
        judge(server.name_servers)


def pack(root: Path) -> None:
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(GOLDEN, "w:gz") as archive:
        archive.add(root / "store", "store")


def unpack(root: Path) -> None:
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(root, filter="data")


def main(words: list[str]) -> int:
    if len(words) != 2 or words[0] not in ("forth", "back", "golden"):
        print("usage: python -m tests.upgrade.run forth|back|golden COMMIT", file=sys.stderr)
        return 2
    here = ROOT / "src"
    with tempfile.TemporaryDirectory() as directory, sources_of(words[1]) as there:
        root = Path(directory)
        if words[0] == "golden":
            with serving(root, there) as server:
                fill(server.name_servers)
            pack(root)
            print(f"{GOLDEN.relative_to(ROOT)}: {GOLDEN.stat().st_size} bytes")
        else:
            write_and_judge(root, *((there, here) if words[0] == "forth" else (here, there)))
            print(f"{words[0]}: the store of one version works with the other one")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
