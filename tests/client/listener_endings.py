"""Every way in which a listener may end, and consumers whose listener ends in such a way when it is first called.

The judgement: each message is consumed or comes again, the others go on meanwhile, no thread and no loop is dead, the
client can be closed, and what it had not consumed is with its successor.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from gantrymq.aio import ConsumeFromWhere, Message, MessageView, Producer, PushConsumer, ReconsumeLater
from gantrymq.message import properties
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.consumer import SendBack
from gantrymq.protocol.stored_message import decode_record, to_view
from gantrymq.remoting.session import Session
from tests.client.peer import ScriptedBroker, ScriptedCluster, cluster, run, until

FAILURES: Final[dict[str, Callable[[], object]]] = {
    "returns nonsense": lambda: "done",
    "returns a time to wait that is none": lambda: ReconsumeLater(suspend_ms="soon", delay_level="high"),  # type: ignore[arg-type]
    "raises an Exception": lambda: _raise(ValueError("no")),
    "raises one without a text": lambda: _raise(Wordless()),
    "raises StopIteration": lambda: _raise(StopIteration()),
    "raises SystemExit": lambda: _raise(SystemExit(3)),
    "raises KeyboardInterrupt": lambda: _raise(KeyboardInterrupt()),
    "raises GeneratorExit": lambda: _raise(GeneratorExit()),
    "raises CancelledError": lambda: _raise(asyncio.CancelledError()),
    "raises a BaseException": lambda: _raise(Odd("odd")),
}
"""After each of these the messages come again."""
ENDINGS: Final = ("returns None", "returns twice", *FAILURES, "hangs")
HANGS: Final = ("hangs", "hangs always")
CANCELS: Final = "cancels itself"
"""What only a task can do."""


class Odd(BaseException):
    """Neither an Exception nor one of Python's own."""


class Wordless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def _raise(error: BaseException) -> None:
    raise error


class Endings:
    """A listener that ends as ``ending`` says when it first gets a message whose body begins with ``bad``, and well in
    all other cases. It empties the list that it is given, as one that takes its messages out one by one."""

    def __init__(self, ending: str) -> None:
        self.ending = ending
        self.got: Counter[bytes] = Counter()
        self.done: Counter[bytes] = Counter()
        self.released = threading.Event()

    def __call__(self, messages: list[MessageView]) -> object:
        bodies = self._take(messages)
        if self._ends_badly(bodies):
            if self.ending in HANGS:
                self.released.wait(20)
                return None
            return FAILURES[self.ending]()
        self.done.update(bodies)
        return None

    async def in_a_task(self, messages: list[MessageView]) -> object:
        bodies = self._take(messages)
        await asyncio.sleep(0)
        if self._ends_badly(bodies):
            task = asyncio.current_task()
            if self.ending == CANCELS and task is not None:
                task.cancel()
                await asyncio.sleep(0)
            if self.ending in HANGS:
                await asyncio.Event().wait()
            return FAILURES[self.ending]()
        self.done.update(bodies)
        return None

    def _take(self, messages: list[MessageView]) -> list[bytes]:
        bodies = []
        while messages:
            bodies.append(messages.pop(0).body)
        return bodies

    def _ends_badly(self, bodies: list[bytes]) -> bool:
        self.got.update(bodies)
        well = self.ending.startswith("returns ") and self.ending not in FAILURES
        return not well and any(
            body.startswith(b"bad") and (self.got[body] == 1 or self.ending == "hangs always") for body in bodies
        )


def elsewhere(test: Callable[[], Awaitable[None]]) -> None:
    """Run an async test in a thread that is not the main one: there no KeyboardInterrupt is a Ctrl-C."""
    failed: list[BaseException] = []

    def work() -> None:
        try:
            run(test)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failed:
        if isinstance(failed[0], Exception):
            raise failed[0]
        raise AssertionError(f"the loop was ended by {failed[0]!r}") from failed[0]  # it must not end the tests, too


TOPICS: Final = {"T": 2, "%RETRY%cg": 1}
QUEUES: Final = [MessageQueue("T", "broker-a", number) for number in range(2)]


@contextlib.asynccontextmanager
async def peers_with_retries() -> AsyncIterator[ScriptedCluster]:
    async with cluster(topics=TOPICS) as peers:
        deliver_given_back(peers)
        yield peers


def deliver_given_back(peers: ScriptedCluster) -> None:
    """Have the broker deliver at once what is given back to it."""
    broker = peers.broker
    broker.next(RequestCode.CONSUMER_SEND_MSG_BACK, *[lambda *asked: _deliver_again(broker, *asked)] * 1000)


def _deliver_again(broker: ScriptedBroker, session: Session, command: Command) -> bytes:
    offset = command.header(SendBack).offset
    records = [record for queue in broker.queues.values() for record in queue]
    view = next(found for found in (to_view(decode_record(one), broker.name) for one in records)
                if found.log_offset == offset)  # fmt: skip
    text = properties.encode({**view.properties, properties.RETRY_TOPIC: "T"})
    broker._store("%RETRY%cg", 0, view.body, text, 0, 0)
    return encode_response(command, 0)


async def send(peers: ScriptedCluster, *bodies: bytes) -> None:
    """Each body to every queue, with the queue's number behind it."""
    async with Producer("pg", name_servers=peers.address) as producer:
        for body in bodies:
            for queue in QUEUES:
                await producer.send(Message("T", b"%b-%d" % (body, queue.queue_id)), queue)


def consumer_of(peers: ScriptedCluster, listener: Any, path: Path, **settings: Any) -> PushConsumer:
    more = {
        "consume_threads": 2, "suspend_ms": 1, "close_timeout_ms": 100, "rebalance_interval_ms": 50,
        "offset_dir": str(path), **settings,
    }  # fmt: skip
    return PushConsumer(
        "cg", name_servers=peers.address, listener=listener, from_where=ConsumeFromWhere.FIRST_OFFSET, **more
    ).subscribe("T")


def pool_of(consumer: PushConsumer) -> Any:
    return consumer._queues._consumption._pool  # type: ignore[union-attr]


async def settled(consumer: PushConsumer, running: int = 0) -> None:
    """No listener is at work but for those that hang, and every thread is alive."""
    await until(lambda: consumer._queues._consumption.running == running, what="listeners at work")  # type: ignore[union-attr]
    threads = getattr(pool_of(consumer), "_threads", [])
    assert all(thread.is_alive() for thread in threads), "a consuming thread is dead"
    if not threads:
        assert pool_of(consumer)._free == consumer._config.consume_threads - running
