"""Lines about transactions that end through another door than they began at, and restarts of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from gantrymq import LocalTransactionState, Message, MessageView, TransactionProducer
from tests.interop.five_driver import Driver, Play, Refused
from tests.interop.five_line import NO_DOOR, expect, line

SENDERS, SENDS, BATCH = 3, 40, 8
"""Sends of each sender, and messages of a reception."""
STATES = {"commit": LocalTransactionState.COMMIT, "rollback": LocalTransactionState.ROLLBACK}


class Remoting:
    """The listener of our own producer, which speaks remoting: it leaves every transaction to the check."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        body = message.body.decode()
        self.asked.append(body)
        return STATES.get(body.split()[0], LocalTransactionState.UNKNOWN)


def _half_of_a_dead_producer(p: Play, topic: str, body: str, **words: str) -> None:
    killed: Driver = p.sibling()
    producer = p.client("producer", topic=topic, driver=killed, **words)
    killed.ask("half", name=producer, topic=topic, body=body, transaction=topic)
    killed.process.kill()


@contextmanager
def _remoting(p: Play, topic: str) -> Iterator[tuple[TransactionProducer, Remoting]]:
    """Producers of gRPC are of a group that has the name of their topic."""
    listener = Remoting()
    with TransactionProducer(topic, name_servers=p.door.name_servers, listener=listener) as producer:
        yield producer, listener


@line("transaction: its producer is killed, and one that speaks remoting is checked and commits", short=False)
def _(p: Play) -> None:
    topic = p.topic("TRANSACTION")
    _half_of_a_dead_producer(p, topic, "commit by remoting")
    with _remoting(p, topic) as (_, listener):
        expect(p.take(p.reader(topic), 1), ["commit by remoting"])
        expect(set(listener.asked), {"commit by remoting"})


@line("transaction: its producer is killed, and one that speaks remoting is checked and rolls back", short=False)
def _(p: Play) -> None:
    topic = p.topic("TRANSACTION")
    _half_of_a_dead_producer(p, topic, "rollback by remoting")
    with _remoting(p, topic) as (_, listener):
        p.driver.until(lambda: listener.asked, "a check over remoting")
        p.nothing(p.reader(topic))


@line("transaction: sent over remoting by one that is gone, this client is checked and commits", short=False)
def _(p: Play) -> None:
    topic = p.topic("TRANSACTION")
    with _remoting(p, topic) as (producer, _):
        producer.send_in_transaction(Message(topic, b"commit of remoting"))
    asked = p.client("producer", topic=topic)
    expect(p.take(p.reader(topic), 1), ["commit of remoting"])
    expect(set(p.checks(asked, 1)), {"commit of remoting"})


@line("transaction: its producer is killed, and one at another door is checked and commits", short=False)
def _(p: Play) -> None:
    topic = p.topic("TRANSACTION")
    _half_of_a_dead_producer(p, topic, "commit at another door")
    asked = p.client("producer", topic=topic, endpoint=p.door.second)
    expect(p.take(p.reader(topic), 1), ["commit at another door"])
    expect(set(p.checks(asked, 1)), {"commit at another door"})


@line("transaction: sent at another door, and checked at this one", short=False)
def _(p: Play) -> None:
    topic = p.topic("TRANSACTION")
    _half_of_a_dead_producer(p, topic, "commit at this door", endpoint=p.door.second)
    asked = p.client("producer", topic=topic)
    expect(p.take(p.reader(topic), 1), ["commit at this door"])
    expect(set(p.checks(asked, 1)), {"commit at this door"})


# Restarts under load


class Load:
    """Senders and one consumer that acknowledges, while a door is killed and comes back.

    Each notes when it began and when it was answered. What was under way while the door was away may come twice: a send
    that the client repeats, and a message whose acknowledgement was not answered. Nothing else may.
    """

    def __init__(self, p: Play, topic: str, endpoint: str) -> None:
        self._p, self._topic = p, topic
        self._producer = p.client("producer", topic=topic, endpoint=endpoint)
        self._reader = p.reader(topic, endpoint=endpoint)
        self.taken: dict[str, float] = {}
        """When the send of each body was answered with success."""
        self.sent_at: dict[str, float] = {}
        self.received: list[tuple[str, float]] = []
        """Each body, and when the reception began that brought it."""
        self.acknowledged: dict[str, float] = {}
        self._over = threading.Event()

    def send(self, sender: int) -> None:
        for number in range(SENDS):
            body = f"{sender}.{number}"
            self.sent_at[body] = time.monotonic()
            try:
                self._p.driver.ask("send", name=self._producer, topic=self._topic, body=body)
                self.taken[body] = time.monotonic()
            except Refused:  # it is away: nobody was told that the message is there
                time.sleep(0.2)

    def consume(self) -> None:
        with ThreadPoolExecutor(BATCH) as threads:
            while not self._over.is_set() or self.missing:
                if not (bodies := self._receive()):
                    self._over.wait(0.2)
                list(threads.map(self._acknowledge, bodies))
                assert len(self.received) <= 3 * SENDS * SENDERS, f"{self.missing} are lost"

    @property
    def missing(self) -> set[str]:
        return {*self.taken} - {body for body, _ in self.received}

    def _receive(self) -> list[str]:
        before, begun = len(self._p.driver.seen("got", self._reader)), time.monotonic()
        with suppress(Refused):
            self._p.driver.ask("receive", name=self._reader, count=BATCH, invisible=self._p.door.invisible_s)
        found = [str(one["body"]) for one in self._p.driver.seen("got", self._reader)[before:]]
        self.received += [(body, begun) for body in found]
        return found

    def _acknowledge(self, body: str) -> None:
        with suppress(Refused):
            self._p.driver.ask("ack", name=self._reader, body=body)
            self.acknowledged[body] = time.monotonic()

    def done(self) -> None:
        """All is sent: the consumer ends when it has all that was taken, and what comes again has come."""
        self._over.wait(self._p.door.invisible_s + 2)
        self._over.set()

    def twice(self) -> set[str]:
        bodies = [body for body, _ in self.received]
        return {body for body in bodies if bodies.count(body) > 1}

    def in_flight(self, killed: float, dead: float) -> set[str]:
        """The bodies of sends and acknowledgements that were under way when it was killed. What began later found no
        door: nothing of it was stored before its client connected again."""
        never = dead + 1
        sends = {body for body, begun in self.sent_at.items() if begun < dead and self.taken.get(body, never) > killed}
        first = dict(reversed(self.received))
        return sends | {
            body for body, begun in first.items() if begun < dead and self.acknowledged.get(body, never) > killed
        }


def _restarted(p: Play, endpoint: str, restart: Callable[[], float] | None) -> str:
    assert restart is not None
    load = Load(p, p.topic(), endpoint)
    with ThreadPoolExecutor(SENDERS + 1) as threads:
        consuming = threads.submit(load.consume)
        sending = [threads.submit(load.send, sender) for sender in range(SENDERS)]
        try:
            p.driver.until(lambda: len(load.acknowledged) > SENDS // 2, "the first of them")
            killed = time.monotonic()
            dead = restart()
            for one in sending:
                one.result()
        finally:
            load.done()
        consuming.result()
    twice, in_flight = load.twice(), load.in_flight(killed, dead)
    expect(load.missing, set())
    expect(twice - in_flight, set())
    return f"{len(twice)} twice, {len(in_flight)} in flight"


@line(
    "restart: of broker and door under load; nothing is lost, and twice comes only what was in flight",
    short=False, ours_alone=NO_DOOR, restarts=True,
)  # fmt: skip
def _(p: Play) -> str:
    return _restarted(p, p.door.endpoint, p.door.restart)


@line(
    "restart: of `gantry proxy` under load; nothing is lost, and twice comes only what was in flight",
    short=False, ours_alone="it is ours", restarts=True,
)  # fmt: skip
def _(p: Play) -> str:
    return _restarted(p, p.door.second, p.door.restart_second)
