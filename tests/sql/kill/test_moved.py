"""A service is killed right behind the commit of a transaction that was led to another schema. The sibling that is
asked finds the outcome row all the same: row and message agree."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from gantrymq import Message, Producer
from gantrymq.aio import PullConsumer
from gantrymq.sql import Transactions
from gantrymq.sql.transaction.enlistment import Enlistment
from tests.kill.server import Server
from tests.sql.databases import Place
from tests.sql.kill.service import fork

SETTLE_SECONDS = 30.0


def delivered(name_servers: str) -> int:
    async def count() -> int:
        async with PullConsumer(name_servers=name_servers) as consumer:
            return sum([await consumer.max_offset(queue) for queue in await consumer.queues("orders")]) - 1

    return asyncio.run(count())


def pay_and_die(place: Place, name_servers: str) -> None:
    Enlistment.committed = lambda self: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign,assignment,return-value]
    transactions = Transactions("service", create_engine(place.url()), name_servers=name_servers)
    with transactions.begin() as tx:
        tx.session.execute(text("SET LOCAL search_path TO tenant1"))
        tx.session.execute(text("INSERT INTO bills VALUES (1)"))
        tx.send(Message("orders", "1"))


def prepare(place: Place, name_servers: str) -> None:
    engine = create_engine(place.url())
    Transactions("service", engine, name_servers=name_servers).create_table()
    place.execute("CREATE SCHEMA tenant1", "CREATE TABLE tenant1.bills (id INTEGER PRIMARY KEY)")
    table, inbox = "tenant1.gantrymq_outcomes", "tenant1.gantrymq_inbox"
    Transactions("tenant", engine, name_servers=name_servers, table=table, inbox_table=inbox).create_table()
    engine.dispose()
    with Producer("prepare", name_servers=name_servers) as producer:
        producer.send(Message("orders", "first"))


def answer(place: Place, name_servers: str) -> None:
    with Transactions("service", create_engine(place.url()), name_servers=name_servers, topics=["orders"]):
        time.sleep(SETTLE_SECONDS)


@pytest.mark.kill
@pytest.mark.slow
def test_a_service_that_is_killed_in_another_schema_loses_no_message(postgresql: Place) -> None:
    with tempfile.TemporaryDirectory(prefix="gantry-sql-kill-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        server, log, sibling = Server(root, "SYNC_FLUSH"), root / "services.log", 0
        try:
            server.start()
            os.waitpid(fork(lambda: prepare(postgresql, server.name_servers), log), 0)
            sender = fork(lambda: pay_and_die(postgresql, server.name_servers), log)
            _, status = os.waitpid(sender, 0)
            assert os.WIFSIGNALED(status), log.read_text()
            sibling = fork(lambda: answer(postgresql, server.name_servers), log)
            end = time.monotonic() + SETTLE_SECONDS
            while not delivered(server.name_servers):
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.1)
            assert postgresql.execute("SELECT id FROM tenant1.bills") == [(1,)]
            assert delivered(server.name_servers) == 1
        finally:
            if sibling:
                os.kill(sibling, signal.SIGKILL)
                os.waitpid(sibling, 0)
            server.kill()
