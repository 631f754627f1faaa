"""What happens to brokers and topics under a query that reads."""

from __future__ import annotations

import asyncio
import os
import time

from gantrymq import aio
from gantrymq.admin.blocking import Admin
from gantrymq.protocol.codes import RequestCode
from tests.kill.server import Server
from tests.spark.source.points import fill, make_topic

WAIT_S = 30.0
LOG_FILE_BYTES = 8 * 1024 * 1024
"""The size of a file of the log of a ``Server``."""


def fill_log_files(server: Server, topic: str, files: int = 2, mark: str = "row") -> list[str]:
    """Messages for so many files of the log, and some more."""
    padding = 4096
    return fill(server.name_servers, topic, files * LOG_FILE_BYTES // padding + 100, mark, padding)


def expire_log(server: Server) -> None:
    """Let the broker delete all files of its log but the last, as if they were old."""
    files = sorted((server.store / "commitlog").iterdir())[:-1]
    for file in files:
        os.utime(file, (0, 0))
    end = time.monotonic() + WAIT_S
    while any(file.exists() for file in files):  # a broker deletes no file that it has not flushed yet
        assert time.monotonic() < end, "the broker does not delete old files"
        _ask_for_deletion(server)
        time.sleep(0.05)


def _ask_for_deletion(server: Server) -> None:

    async def ask() -> None:
        async with aio.Admin(server.name_servers) as admin:
            for address in (await admin._asking.masters()).values():
                await admin._asking.ask(address, RequestCode.DELETE_EXPIRED_COMMITLOG, what="deletion of old files")

    asyncio.run(ask())


def make_again(server: Server, topic: str, queues: int) -> None:
    """Delete a topic with its messages, and make it anew."""
    with Admin(server.name_servers) as admin:
        admin.delete_topic(topic)
    make_topic(server.name_servers, topic, queues)
