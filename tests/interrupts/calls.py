"""Single calls of clients that continue to be used: sends, transactions, pulls, polls, questions of an
administrator.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import gantrymq
from gantrymq import LocalTransactionState, Message, MessageView
from tests.interrupts.scenario import COMMIT, FIRST, ROLLBACK, Broken, Scenario, idle, until


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


class Receive(Poll):
    """A program that receives and acknowledges, and is interrupted in both: what it had in hand comes again."""

    name = "SimpleConsumer.receive and ack"

    def member(self) -> gantrymq.SimpleConsumer:  # type: ignore[override]
        member = gantrymq.SimpleConsumer(
            "cg-receive", name_servers=self.server.address, from_where=FIRST, await_duration_ms=200
        )
        return member.subscribe(self.topic)

    def take(self) -> None:
        for view in self.consumer.receive(3, 4_000):  # type: ignore[attr-defined]
            self.processed.add(view.body.decode())
            self.consumer.ack(view)  # type: ignore[attr-defined]

    def act(self) -> None:
        self.take()
        self.done += 1

    def settle(self) -> None:
        self.send()
        self.take()

    def finish(self) -> None:
        def rest() -> bool:
            self.take()
            return self.sent <= self.processed

        try:
            until(rest, "every message is processed")
        except Broken as error:
            lost = self.sent - self.processed
            raise Broken(f"{error}: {len(lost)} of {len(self.sent)} are lost") from None
        self.consumer.close()
        Scenario.finish(self)


ALL: Final[tuple[type[Scenario], ...]] = (
    SendBatch, SendOneway, SendAsync, Request, SendInTransaction, SendInAsyncTransaction, Pull, AskAdmin, Poll,
    Receive,
)  # fmt: skip
