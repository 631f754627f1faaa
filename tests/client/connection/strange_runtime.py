"""One runtime and one way in, in a process of its own: ``python -m ... RUNTIME WAY NAME_SERVERS DATABASE``.

Ends with status 0 when a message was sent or read, and with 3 and one sentence when the client refused to work.
"""

from __future__ import annotations

import asyncio
import atexit
import multiprocessing
import signal
import sqlite3
import sys
import threading
import time
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
    elif runtime == "nest_asyncio":
        import nest_asyncio

        nest_asyncio.apply()
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


async def nested() -> None:
    """As in a notebook with ``nest_asyncio.apply()``: loops run inside a running loop."""
    producer()
    asyncio.run(aio_producer())
    async with aio.Producer("p", name_servers=servers) as client:
        asyncio.run(client.send(MESSAGE))  # type: ignore[arg-type]


def in_processes(kind: str) -> None:
    """Parent and child have clients of their own, at the same time."""
    with gantrymq.Producer("p", name_servers=servers) as client:
        client.send(MESSAGE)
        child = multiprocessing.get_context(kind).Process(target=producer)
        child.start()
        child.join()
        assert child.exitcode == 0
        client.send(MESSAGE)


def given_away() -> None:
    with gantrymq.Producer("p", name_servers=servers) as client:
        multiprocessing.get_context("spawn").Process(target=print, args=(client,)).start()


def in_a_sub_interpreter() -> None:
    import _xxsubinterpreters as interpreters

    number = interpreters.create()
    code = f"import sys; sys.path[:] = {sys.path!r}; sys.argv = ['', {runtime!r}, 'Producer', {servers!r}, '']\n"
    code += "import tests.client.connection.strange_runtime as odd\nfor n in range(2):\n  try: odd.producer()\n"
    code += "  except odd.WrongRuntime as error: print(error, flush=True)\n  else: raise SystemExit('it worked')\n"
    interpreters.run_string(number, code)
    sys.exit(REFUSED)


def with_signals_that_raise() -> None:
    """Handlers raise in the middle of calls, and the client goes on."""

    class Alarm(Exception):
        pass

    def handle(*_: object) -> None:
        raise Alarm

    signal.signal(signal.SIGALRM, handle)
    raised = 0
    with gantrymq.Producer("p", name_servers=servers) as client:
        for number in range(100):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0003 + number % 20 * 0.0001)
                client.send(MESSAGE)
                time.sleep(0.1)
            except Alarm:
                raised += 1
        assert raised == 100
        client.send(MESSAGE)


def open_at_the_end() -> None:
    """Nobody closes anything, a thread goes on sending, and a listener never returns."""
    client = gantrymq.Producer("p", name_servers=servers)
    client.start()
    begun = threading.Event()
    first = gantrymq.ConsumeFromWhere.FIRST_OFFSET

    def hang(messages: object) -> None:
        begun.set()
        time.sleep(600)

    gantrymq.PushConsumer("open", name_servers=servers, listener=hang, from_where=first).subscribe("strange").start()
    assert begun.wait(30)

    def work() -> None:
        while True:
            client.send(MESSAGE)

    threading.Thread(target=work, daemon=True).start()


def in_an_exit_handler() -> None:
    client = gantrymq.Producer("p", name_servers=servers)
    client.start()
    atexit.register(lambda: (client.send(MESSAGE), client.close(), print("sent at exit")))


SPECIAL = {
    "spawn": lambda: in_processes("spawn"), "forkserver": lambda: in_processes("forkserver"),
    "given-away": given_away, "sub-interpreter": in_a_sub_interpreter, "signals": with_signals_that_raise,
    "open-at-the-end": open_at_the_end, "exit-handler": in_an_exit_handler, "nested": lambda: asyncio.run(nested()),
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
