"""Whole lives of clients: in each act a client is made, started, used and closed."""

from __future__ import annotations

import threading
from typing import Any, Final

import gantrymq
from gantrymq import Message
from gantrymq.client.connection import portals as process
from gantrymq.client.connection.blocking import Blocking
from tests.interrupts.calls import Rows
from tests.interrupts.scenario import FIRST, Scenario, portals, until


class Life(Scenario):
    """A client that is made for each act, started, used and closed within it."""

    name = "Producer in a with block"
    made: Blocking[Any] | None = None

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
    until(lambda: not any(client._client in door._users for door in process.portals()), "the portal is let go")


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


ALL: Final[tuple[type[Scenario], ...]] = (Life, StartTransactionProducer, StartPush, StartLitePull, Alone)
