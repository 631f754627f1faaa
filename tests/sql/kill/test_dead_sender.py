"""A broker is killed together with the sender of open half messages: it asks a sibling some seconds after its restart,
and not after the longest time that a local transaction may take."""

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
from gantrymq.aio import Admin, PullConsumer
from gantrymq.sql import Transactions
from tests.kill.server import Server
from tests.sql.kill.databases import Sqlite
from tests.sql.kill.service import COPIES, SCHEMA, Setting, answer, fork, serve

LONGEST_S = 3600.0
SETTLE_SECONDS = 60.0


def prepare(setting: Setting) -> None:
    engine = create_engine(setting.url)
    with engine.begin() as connection:
        connection.execute(text(SCHEMA))
    Transactions("none", engine, name_servers=setting.name_servers).create_table()
    with Producer("prepare", name_servers=setting.name_servers) as producer:
        for topic in COPIES:
            producer.send(Message(topic, "first"))
    engine.dispose()


def undecided(name_servers: str) -> int:
    """How many half messages are open."""

    async def ask() -> int:
        async with Admin(name_servers) as admin:
            return len(await admin.transactions.undecided())

    return asyncio.run(ask())


def delivered(name_servers: str) -> int:
    async def count() -> int:
        async with PullConsumer(name_servers=name_servers) as consumer:
            queues = [queue for topic in COPIES for queue in await consumer.queues(topic)]
            return sum([await consumer.max_offset(queue) for queue in queues]) - len(COPIES)

    return asyncio.run(count())


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.parametrize(("point", "copies"), [("before_commit", 0), ("after_commit", sum(COPIES.values()))])
def test_a_broker_that_was_killed_with_the_sender_asks_a_sibling_soon(point: str, copies: int) -> None:
    with tempfile.TemporaryDirectory(prefix="gantry-sql-kill-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        server, database = Server(root, "SYNC_FLUSH"), Sqlite(root)
        setting = Setting(database.url, server.name_servers, None, root / "services.log", LONGEST_S)
        sibling = 0
        try:
            server.start()
            os.waitpid(fork(lambda: prepare(setting), setting.log), 0)
            sender = fork(lambda: serve(setting, ["o-1"], point, 0), setting.log)
            _, status = os.waitpid(sender, 0)
            server.kill()  # before it has noticed for long enough that the sender is gone
            assert os.WIFSIGNALED(status), setting.log.read_text()
            # Nobody else was there who could have been asked: all halves are open.
            sibling = fork(lambda: answer(setting, None), setting.log)
            server.start()
            end = time.monotonic() + SETTLE_SECONDS
            while undecided(server.name_servers):
                assert time.monotonic() < end, setting.log.read_text()
                time.sleep(0.1)
            assert delivered(server.name_servers) == copies
        finally:
            if sibling:
                os.kill(sibling, signal.SIGKILL)
                os.waitpid(sibling, 0)
            server.kill()
