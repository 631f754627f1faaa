"""One runtime and one way in, in a process of its own: ``python -m ... RUNTIME WAY NAME_SERVERS DATABASE``.

Ends with status 0 when a message was sent or read, and with 3 and one sentence when the client refused to work.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Callable
from typing import Any

REFUSED = 3
runtime, way, servers, database = sys.argv[1:]


def patch() -> None:
    """What a program does that uses this runtime."""
    if runtime.startswith("gevent"):
        from gevent import monkey

        real = runtime == "gevent-without-threads"
        monkey.patch_all(thread=not real, queue=not real)
    elif runtime.startswith("eventlet"):
        import eventlet

        eventlet.monkey_patch(thread=runtime != "eventlet-without-threads")
    elif runtime == "uvloop":
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


if not runtime.endswith("-late"):
    patch()

import gantrymq  # noqa: E402
from gantrymq import aio  # noqa: E402
from gantrymq.errors import WrongRuntime  # noqa: E402
from gantrymq.sql import Transactions  # noqa: E402

MESSAGE = gantrymq.Message("strange", b"x")


class Listener:
    def execute_local_transaction(self, message: Any, arg: object) -> gantrymq.LocalTransactionState:
        return gantrymq.LocalTransactionState.COMMIT

    def check_local_transaction(self, message: Any) -> gantrymq.LocalTransactionState:
        return gantrymq.LocalTransactionState.COMMIT


def producer() -> None:
    with gantrymq.Producer("p", name_servers=servers) as client:
        client.send(MESSAGE)


def transaction_producer() -> None:
    with gantrymq.TransactionProducer("tp", name_servers=servers, listener=Listener()) as client:
        client.send_in_transaction(MESSAGE)


def pull_consumer() -> None:
    with gantrymq.PullConsumer(name_servers=servers) as client:
        client.pull(client.queues("strange")[0], 0)


def push_consumer() -> None:
    got = threading.Event()
    first = gantrymq.ConsumeFromWhere.FIRST_OFFSET
    with gantrymq.PushConsumer(
        f"g-{runtime}", name_servers=servers, listener=lambda messages: got.set(), from_where=first
    ).subscribe("strange"):
        assert got.wait(30)


def transactions() -> None:
    some = Transactions("sql", lambda: sqlite3.connect(database), name_servers=servers)
    some.create_table()
    with some, some.begin() as tx:
        tx.send(MESSAGE)
        tx.execute("CREATE TABLE IF NOT EXISTS rows (id)")


async def aio_producer() -> None:
    async with aio.Producer("p", name_servers=servers) as client:
        await client.send(MESSAGE)


async def aio_pull_consumer() -> None:
    async with aio.PullConsumer(name_servers=servers) as client:
        await client.pull((await client.queues("strange"))[0], 0)


BLOCKING: dict[str, Callable[[], None]] = {
    "Producer": producer, "TransactionProducer": transaction_producer, "PullConsumer": pull_consumer,
    "PushConsumer": push_consumer, "Transactions": transactions,
}  # fmt: skip
ASYNC: dict[str, Callable[[], Any]] = {"aio.Producer": aio_producer, "aio.PullConsumer": aio_pull_consumer}


def twice() -> None:
    """A client that was started in one ``asyncio.run`` and is used in the next one."""
    client = aio.Producer("p", name_servers=servers)

    async def first() -> None:
        await client.start()
        await client.send(MESSAGE)

    asyncio.run(first())
    asyncio.run(client.send(MESSAGE))  # type: ignore[arg-type]


def in_another_loop() -> None:
    """A client of a running loop, used from another loop in another thread."""

    async def main() -> None:
        async with aio.Producer("p", name_servers=servers) as client:
            await asyncio.to_thread(lambda: asyncio.run(client.send(MESSAGE)))  # type: ignore[arg-type]

    asyncio.run(main())


def without_loop() -> None:
    """The coroutine is driven by hand, as by a framework that is not asyncio."""
    aio_producer().send(None)


def under_trio() -> None:
    import trio

    trio.run(aio_producer)


def in_executor() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().run_in_executor(None, producer)

    asyncio.run(main())


def in_a_running_loop() -> None:
    async def main() -> None:
        producer()

    asyncio.run(main())


SPECIAL = {
    "twice": twice, "another-loop": in_another_loop, "no-loop": without_loop, "trio": under_trio,
    "executor": in_executor, "running-loop": in_a_running_loop,
}  # fmt: skip


def main() -> None:
    if runtime.endswith("-late"):
        patch()
    if way in SPECIAL:
        SPECIAL[way]()
    elif way in ASYNC:
        asyncio.run(ASYNC[way]())
    else:
        BLOCKING[way]()


if __name__ == "__main__":
    try:
        main()
    except WrongRuntime as error:
        print(error)
        sys.exit(REFUSED)
