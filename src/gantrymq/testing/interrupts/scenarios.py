"""What is interrupted: each blocking call of the public clients, and what must hold behind it.

``act`` is what a program does and an interrupt breaks off; ``settle`` is what the same program does next, and looks at
what is left; ``finish`` judges at the end what all of them together have sent, committed or processed.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import gantrymq
from gantrymq import ConsumeFromWhere, LocalTransactionState, Message, MessageView
from gantrymq.client import portal
from gantrymq.client.sync import Blocking
from gantrymq.testing.interrupts.server import Server

WAIT_S: Final = 20.0
"""What must happen happens within this time; a broken call would never end."""
COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK
FIRST: Final = ConsumeFromWhere.FIRST_OFFSET


class Broken(Exception):
    """Something does not hold."""


def until(holds: Callable[[], Any], what: str) -> None:
    """Wait for something; raises Broken."""
    pause, over = threading.Event(), time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > over:
            break
        pause.wait(0.002)
    else:
        return
    raise Broken(f"{what}: not within {WAIT_S:.0f} s")


def portals() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "gantrymq-portal"]


class Scenario:
    """A long-lived producer, and one call on it."""

    name = "Producer.send"

    def __init__(self, server: Server) -> None:
        self.server = server
        self.topic = "T-" + re.sub(r"\W+", "-", self.name)
        self.done = 0
        """Acts that were not interrupted."""

    def open(self) -> None:
        self.producer = self.client()
        self.producer.start()
        self.producer.send(Message(self.topic, b"first"))

    def reopen(self) -> None:
        """The handler has closed the producer."""
        self.producer = self.client()
        self.producer.start()

    def client(self) -> gantrymq.Producer:
        return gantrymq.Producer("pg", name_servers=self.server.address)

    def act(self) -> None:
        self.producer.send(Message(self.topic, b"x"))
        self.done += 1

    def settle(self) -> None:
        if self.producer._closed:
            self.reopen()
        self.producer.send(Message(self.topic, b"next"))
        idle(self.producer)

    def finish(self) -> None:
        self.producer.close()


def idle(producer: gantrymq.Producer) -> None:
    """Nothing of an interrupted call is left: not on the loop, not in what ``close`` would wait for."""
    until(lambda: producer._client._idle(), "no send is in flight")
    door = producer._portal
    until(lambda: door is None or not door._calls, "no call is left on the loop")


class SendBatch(Scenario):
    name = "Producer.send_batch"

    def act(self) -> None:
        self.producer.send_batch([Message(self.topic, b"x"), Message(self.topic, b"y")])
        self.done += 1


class SendOneway(Scenario):
    name = "Producer.send_oneway"

    def act(self) -> None:
        self.producer.send_oneway(Message(self.topic, b"x"))
        self.done += 1


class SendAsync(Scenario):
    name = "Producer.send_async"

    def act(self) -> None:
        self.producer.send_async(Message(self.topic, b"x"))
        self.done += 1


class Request(Scenario):
    name = "Producer.request"

    def open(self) -> None:
        super().open()

        def answer(messages: list[MessageView]) -> None:
            for view in messages:
                if "CORRELATION_ID" in view.properties:
                    self.producer.reply(view, b"answer")

        self.answering = gantrymq.PushConsumer("answers", name_servers=self.server.address, listener=answer)
        self.answering.subscribe(self.topic).start()
        self.producer.request(Message(self.topic, b"question"), timeout_ms=10_000)

    def act(self) -> None:
        self.producer.request(Message(self.topic, b"question"), timeout_ms=10_000)
        self.done += 1

    def settle(self) -> None:
        super().settle()
        until(lambda: not self.producer._client._replies._waiting, "no request waits for its reply")

    def finish(self) -> None:
        self.answering.close()
        super().finish()


@dataclass
class Rows:
    """The database of a program with a decisive listener: one row for each transaction, written once."""

    rows: dict[str, str] = field(default_factory=dict)

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        outcome = self.rows.setdefault(message.transaction_id or "", "commit")
        return COMMIT if outcome == "commit" else ROLLBACK

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        outcome = self.rows.setdefault(message.transaction_id or "", "rollback")
        return COMMIT if outcome == "commit" else ROLLBACK


class AsyncRows(Rows):
    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:  # type: ignore[override]
        return super().execute_local_transaction(message, arg)


class SendInTransaction(Scenario):
    name = "TransactionProducer.send_in_transaction"
    rows: type[Rows] = Rows

    def open(self) -> None:
        self.database = self.rows()
        super().open()

    def client(self) -> gantrymq.TransactionProducer:
        self.message = Message(self.topic, b"x")
        return gantrymq.TransactionProducer(
            f"pg-{self.topic}", name_servers=self.server.address, listener=self.database, end_retries=1
        )

    def act(self) -> None:
        self.producer.send_in_transaction(self.message)  # type: ignore[attr-defined]
        self.done += 1

    def settle(self) -> None:
        super().settle()
        result = self.producer.send_in_transaction(self.message)  # type: ignore[attr-defined]
        if not result.decided:
            raise Broken(f"the next transaction is not decided: {result}")
        idle(self.producer)
        left = [key for key, one in self.producer._client._memory._transactions.items() if one.running]  # type: ignore[attr-defined]
        if left:
            raise Broken(f"the half of {left} is running for ever")

    def finish(self) -> None:
        until(lambda: not self.server.open_halves, "every half is decided")
        super().finish()
        wanted = {key for key, outcome in self.database.rows.items() if outcome == "commit"}
        found = Counter(view.transaction_id for view in self._delivered() if view.body == b"x")
        if wanted != set(found) or set(found.values()) - {1}:
            lost, more = wanted - set(found), {key: count for key, count in found.items() if count > 1}
            raise Broken(f"lost: {lost}; not committed: {set(found) - wanted}; more than once: {more}")

    def _delivered(self) -> Iterator[MessageView]:
        with gantrymq.PullConsumer(name_servers=self.server.address) as consumer:
            for queue in consumer.queues(self.topic):
                offset, end = 0, consumer.max_offset(queue)
                while offset < end:
                    pulled = consumer.pull(queue, offset)
                    yield from pulled.messages
                    offset = pulled.next_offset


class SendInAsyncTransaction(SendInTransaction):
    name = "TransactionProducer.send_in_transaction, async listener"
    rows = AsyncRows


class Pull(Scenario):
    name = "PullConsumer.pull"

    def open(self) -> None:
        super().open()
        self.consumer = gantrymq.PullConsumer("cg-pull", name_servers=self.server.address)
        self.consumer.start()
        self.queue = self.consumer.queues(self.topic)[0]

    def act(self) -> None:
        self.consumer.pull(self.queue, 0)
        self.consumer.commit(self.queue, 0)
        self.consumer.committed(self.queue)
        self.done += 1

    def settle(self) -> None:
        self.consumer.commit(self.queue, 0)
        if self.consumer.committed(self.queue) != 0:
            raise Broken("what was committed is not there")

    def finish(self) -> None:
        self.consumer.close()
        super().finish()


class AskAdmin(Scenario):
    name = "Admin"

    def act(self) -> None:
        with gantrymq.Admin(self.server.address) as admin:
            admin.create_topic(f"{self.topic}-made", queues=2)
            admin.route(self.topic)
            admin.queue_stats(self.topic)
        self.done += 1


class Poll(Scenario):
    """A program that processes what ``poll`` returns, commits now and then, and is interrupted in poll and commit."""

    name = "LitePullConsumer.poll and commit"
    batch = 20

    def open(self) -> None:
        super().open()
        self.sent = {"first"}
        self.processed: set[str] = set()
        self.numbers = itertools.count()
        self.consumer = self.member()
        self.consumer.start()

    def member(self) -> gantrymq.LitePullConsumer:
        member = gantrymq.LitePullConsumer(
            "cg-poll", name_servers=self.server.address, from_where=FIRST, auto_commit_interval_ms=1, poll_batch_size=3
        )
        return member.subscribe(self.topic)

    def send(self) -> None:
        names = [f"m-{next(self.numbers)}" for _ in range(self.batch)]
        self.producer.send_batch([Message(self.topic, name) for name in names])
        self.sent.update(names)

    def act(self) -> None:
        batches: list[list[MessageView]] = []
        for _ in range(3):
            batches.append(self.consumer.poll(50))
            self.processed.update(view.body.decode() for view in batches.pop())
        self.consumer.commit()
        self.done += 1

    def settle(self) -> None:
        self.send()
        self.processed.update(view.body.decode() for view in self.consumer.poll(10_000))

    def finish(self) -> None:
        self.consumer.close()
        super().finish()
        with self.member() as last:  # another member of the group: what was not committed comes to it

            def rest() -> bool:
                self.processed.update(view.body.decode() for view in last.poll(100))
                return self.sent <= self.processed

            try:
                until(rest, "every message is processed")
            except Broken as error:
                lost = self.sent - self.processed
                raise Broken(f"{error}: {len(lost)} of {len(self.sent)} are lost") from None


class Life(Scenario):
    """A client that is made for each act, started, used and closed within it."""

    name = "Producer in a with block"
    made: Blocking[Any] | None = None

    def open(self) -> None:
        super().open()
        self.warm()

    def warm(self) -> None:
        """What the first act would do once."""

    def make(self) -> Blocking[Any]:
        return self.client()

    def act(self) -> None:
        self.made = self.make()
        with self.made as client:
            self.use(client)
        self.done += 1

    def use(self, client: Any) -> None:
        client.send(Message(self.topic, b"x"))

    def settle(self) -> None:
        made, self.made = self.made, None
        if made is not None:
            made.close()  # as a program may, and must when the interrupt came right before ``with`` would have done it
            closed(made)
        with self.make() as client:
            self.use(client)
        super().settle()


def closed(client: Blocking[Any]) -> None:
    """Its connections are closed, it has no task, and the portal does not wait for it."""
    endpoint = client._client._endpoint
    until(lambda: not endpoint.running, "the client is closed")
    until(lambda: not endpoint.remoting.connected_addresses(), "its connections are closed")
    until(lambda: not any(client._client in door._users for door in portal._portals.values()), "the portal is let go")


class StartTransactionProducer(Life):
    name = "TransactionProducer in a with block"

    def make(self) -> Blocking[Any]:
        return gantrymq.TransactionProducer(
            "life", name_servers=self.server.address, listener=Rows(), topics=self.topic
        )

    def use(self, client: Any) -> None:
        client.send_in_transaction(Message(self.topic, b"x"))


class StartPush(Life):
    name = "PushConsumer in a with block"

    def make(self) -> Blocking[Any]:
        consumer = gantrymq.PushConsumer(
            "cg-life", name_servers=self.server.address, listener=lambda messages: None, consume_threads=2
        )
        return consumer.subscribe(self.topic)

    def use(self, client: Any) -> None:
        client.assigned  # noqa: B018

    def settle(self) -> None:
        super().settle()
        until(lambda: not any(t.name.startswith("gantrymq-consume") for t in threading.enumerate()), "threads end")


class StartLitePull(Life):
    name = "LitePullConsumer in a with block, assigned"

    def make(self) -> Blocking[Any]:
        return gantrymq.LitePullConsumer("cg-lite-life", name_servers=self.server.address, from_where=FIRST)

    def use(self, client: Any) -> None:
        queues = client.queues(self.topic)
        client.assign(queues)
        client.pause(queues)
        client.resume(queues)
        client.seek_to_begin(queues[0])


class Alone(Life):
    """The only client of the process: its portal's thread begins and ends with it."""

    name = "the only client of the process"

    def open(self) -> None:
        with self.make() as client:
            self.use(client)

    def settle(self) -> None:
        made, self.made = self.made, None
        if made is not None:
            made.close()
            closed(made)
        until(lambda: not portals(), "the thread of the portal has ended")
        with self.make() as client:
            self.use(client)
        until(lambda: not portals(), "the thread of the portal has ended")

    def finish(self) -> None:
        until(lambda: not portals(), "the thread of the portal has ended")


SCENARIOS: Final[tuple[type[Scenario], ...]] = (
    Scenario, SendBatch, SendOneway, SendAsync, Request, SendInTransaction, SendInAsyncTransaction, Pull, AskAdmin,
    Poll, Life, StartTransactionProducer, StartPush, StartLitePull, Alone,
)  # fmt: skip
