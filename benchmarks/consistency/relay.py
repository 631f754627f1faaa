"""The relay of the outbox: faststream-outbox polls its table, and each row is sent to our broker.

The settings are the library's own, but for four workers (as in its documentation) instead of one. Its poll is
``SELECT ... FOR UPDATE SKIP LOCKED``, ten rows at once; PostgreSQL's notifications wake it up in between.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any, Final

from faststream_outbox import OutboxBroker
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.consistency.outbox_table import metadata, table
from benchmarks.consistency.roles import say
from benchmarks.consistency.setting import ORDERS, OUTBOX_QUEUE, TOPIC, Setting
from gantrymq.aio import Message, Producer

WORKERS: Final = 4


async def run(setting: Setting) -> None:
    engine = create_async_engine(setting.url(ORDERS, "asyncpg"), pool_size=WORKERS + 4, pool_pre_ping=True)
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    outbox = OutboxBroker(engine, outbox_table=table, logger=logging.getLogger("relay"))
    producer = Producer("orders-relay", name_servers=setting.name_server, topics=[TOPIC])

    @outbox.subscriber(OUTBOX_QUEUE, max_workers=WORKERS)
    async def relay(body: dict[str, Any]) -> None:
        await producer.send(Message(TOPIC, json.dumps(body), keys=[str(body["order"])]))

    async with producer, outbox:
        say(ready=True)
        await asyncio.Event().wait()


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    asyncio.run(run(Setting.parse(sys.argv[1])))


if __name__ == "__main__":
    main()
