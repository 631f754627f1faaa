"""A cluster with something on every page, and a console over it: for the browser tests and the screenshots.

python -m tests.console.scene DIRECTORY      runs until its input ends, and prints the address and the password
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import uvicorn

from gantrymq.admin import Admin
from gantrymq.aio import TransactionProducer
from gantrymq.client.listener import LocalTransactionState
from gantrymq.console.app import opened
from gantrymq.console.root_path import RootPath
from gantrymq.console.settings import ConsoleSettings
from gantrymq.errors import GantryError
from gantrymq.message.message import Message
from gantrymq.message.system_topics import TOOLS_CONSUMER
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.headers.consumer import SendBack, UpdateConsumerOffset
from gantrymq.protocol.headers.send import SendMessageAnswer
from gantrymq.protocol.signature import Account
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from tests.access.test_broker import ADMIN, Caller
from tests.access.test_broker import SETTINGS as GUARDED
from tests.console.site import PASSWORD, USERS
from tests.support.brokers import Cluster, cluster

ORDERS, REFUNDS = "orders-paid", "refunds-made"
ANN = Account("ann", "ann-secret")
RIGHTS_OF_ANN = (
    "Cluster:*=Get,List", f"Topic:{ORDERS}=Get,Sub", "Topic:%DLQ%newsletter=Get,Sub", "Group:newsletter=Get",
    f"Group:{TOOLS_CONSUMER}=Sub",
)  # fmt: skip
PARK_SETTINGS = {"transaction_time_out": 4_000, "transaction_check_interval": 1_000, "transaction_check_max": 3}


def order(number: int) -> bytes:
    return json.dumps(
        {"order": 4_700 + number, "customer": f"c-{number % 13}", "amount": f"{number * 7 % 500}.90", "currency": "EUR"}
    ).encode()  # fmt: skip


async def half(running: Cluster, number: int, group: str, topic: str) -> SendMessageAnswer:
    properties = (
        f"TRAN_MSG\x01true\x02PGROUP\x01{group}\x02UNIQ_KEY\x017F0000014B2D18B4AAC2{number:012X}\x02"
        f"KEYS\x01order-{4_700 + number}\x02TAGS\x01paid\x02"
    )
    return await running.sent(topic, order(number), properties=properties, born_timestamp=SystemClock().wall_ms())


class Unsure:
    """A service whose checker does not know yet."""

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


class Sure(Unsure):
    """A service that decides at once: mostly commits."""

    def __init__(self) -> None:
        self._count = 0

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        self._count += 1
        return LocalTransactionState.ROLLBACK if self._count % 5 == 0 else LocalTransactionState.COMMIT


async def fill(running: Cluster, name_servers: str, open_count: int, account: Account | None = None) -> None:
    """Open and decided transactions, ordinary messages, groups that are behind, dead letters."""
    signing = {} if account is None else {"access_key": account.access_key, "secret_key": account.secret_key}
    async with Admin(name_servers, **signing) as admin:
        for topic in (ORDERS, REFUNDS, "stock-changed", "mails-wanted"):
            await admin.create_topic(topic, 4)
        for group in ("shipping", "bookkeeping", "newsletter"):
            await admin.groups.put(group, lambda known: known)
        for number in range(40):
            properties = f"KEYS\x01order-{number}\x02TAGS\x01{'paid' if number % 3 else 'late'}\x02"
            sent = await running.sent(
                ORDERS, order(number), properties=properties, queue_id=number % 4,
                born_timestamp=SystemClock().wall_ms(),
            )  # fmt: skip
            if number < 5:
                await send_back(admin, running, sent.msg_id)
        for queue in range(4):
            for group, offset in (("shipping", 7), ("bookkeeping", 10)):
                header = UpdateConsumerOffset(
                    consumer_group=group, topic=ORDERS, queue_id=queue, commit_offset=offset
                )  # fmt: skip
                await running.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)
    for number in range(open_count):
        group = ("wallet", "wallet", "refunds", "loyalty")[number % 4]
        await half(running, number, group, REFUNDS if group == "refunds" else ORDERS)


async def send_back(admin: Admin, running: Cluster, message_id: str) -> None:
    """Make a dead letter of a message, as a consumer does that gives up."""
    message = await admin.messages.by_place_id(message_id)
    assert message is not None
    await running.ask(
        RequestCode.CONSUMER_SEND_MSG_BACK, SendBack(group="newsletter", offset=message.log_offset, delay_level=-1)
    )


async def keep_busy(name_servers: str) -> None:
    """A service that commits and rolls back a few transactions each second, until it is cancelled."""
    async with TransactionProducer(
        "payments", name_servers=name_servers, listener=Sure(), topics=[ORDERS], trace=True
    ) as producer:  # fmt: skip
        number = 100_000
        while True:
            for _ in range(1 + number % 4):
                number += 1
                # On a busy machine a send may end with TimedOut; without the next one no page would change.
                with contextlib.suppress(GantryError):
                    await producer.send_in_transaction(Message(ORDERS, order(number), keys=f"order-{number}"))
            await asyncio.sleep(0.2)


@contextlib.asynccontextmanager
async def scene(
    root: Path, *, open_count: int = 60, busy: bool = True, port: int = 0, root_path: str = ""
) -> AsyncIterator[str]:
    """The address of the console."""
    settings = ConsoleSettings(users=USERS, sample_seconds=1, root_path=RootPath(root_path))
    async with contextlib.AsyncExitStack() as stack:
        running = await stack.enter_async_context(cluster(root / "store", with_name_server=True, **PARK_SETTINGS))
        assert running.name_server is not None
        name_servers = running.name_server.address
        await fill(running, name_servers, open_count)
        if busy:
            unsure = TransactionProducer("wallet", name_servers=name_servers, listener=Unsure(), topics=[ORDERS])
            await stack.enter_async_context(unsure)
            working = asyncio.create_task(keep_busy(name_servers))
            stack.callback(working.cancel)
        application = await stack.enter_async_context(
            opened(name_servers, settings, root / "audit.jsonl", SystemClock(), SystemRng(), only_local_names=True,
                   secure_cookies=False)
        )  # fmt: skip
        yield await stack.enter_async_context(served(application, port))


@contextlib.asynccontextmanager
async def guarded_scene(root: Path, *, open_count: int = 12) -> AsyncIterator[str]:
    """The same over a broker with users, where people log in as these: ADMIN, and ANN, who has few rights."""
    settings = ConsoleSettings(users=USERS, sample_seconds=1, broker_users=True)
    async with contextlib.AsyncExitStack() as stack:
        running = await stack.enter_async_context(
            cluster(root / "store", with_name_server=True, **PARK_SETTINGS, **GUARDED)  # type: ignore[arg-type]
        )
        assert running.name_server is not None
        name_servers, caller = running.name_server.address, Caller(running.broker.address, ADMIN)
        stack.push_async_callback(caller.client.close)
        await fill(replace(running, client=caller.client), name_servers, open_count, ADMIN)
        assert await caller.make_user(ANN.access_key, *RIGHTS_OF_ANN) == ANN
        application = await stack.enter_async_context(
            opened(name_servers, settings, root / "audit.jsonl", SystemClock(), SystemRng(), only_local_names=True,
                   secure_cookies=False)
        )  # fmt: skip
        yield await stack.enter_async_context(served(application, 0))


@contextlib.asynccontextmanager
async def served_over(running: Cluster, root: Path) -> AsyncIterator[str]:
    """The address of a console over any cluster."""
    assert running.name_server is not None
    settings = ConsoleSettings(users=USERS, sample_seconds=1)
    async with (
        opened(
            running.name_server.address, settings, root / "audit.jsonl", SystemClock(), SystemRng(),
            only_local_names=True, secure_cookies=False,
        ) as application,
        served(application, 0) as address,
    ):  # fmt: skip
        yield address


@contextlib.asynccontextmanager
async def served(application: object, port: int) -> AsyncIterator[str]:
    config = uvicorn.Config(
        application, port=port, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
    )  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[assignment,method-assign]
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


async def main(root: Path) -> None:
    async with scene(root, port=8188) as address:
        print(f"{address}  users: {', '.join(USERS)}  password: {PASSWORD}", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
