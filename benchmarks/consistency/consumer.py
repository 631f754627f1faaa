"""A service that hears of paid orders: each message takes effect once, because the inbox has its number.

Batches make it cheap: the messages that wait are one transaction. A database that is away is tried again until it is
there, so that a crash of the database costs no delivery attempts.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Final

import psycopg

from benchmarks.consistency.roles import commands, say
from benchmarks.consistency.schema import CONSUME
from benchmarks.consistency.setting import TOPIC, Setting
from gantrymq import ConsumeFromWhere, MessageView, PushConsumer

BATCH: Final = 64
PAUSE_S: Final = 0.1
log = logging.getLogger(__name__)


class Service:
    """Logistics, points or cart."""

    def __init__(self, name: str, setting: Setting) -> None:
        self._conninfo = setting.conninfo(name)
        self._connection: psycopg.Connection[Any] | None = None
        self._closed = False

    def consume(self, messages: list[MessageView]) -> None:
        at = time.time()
        orders = {order["order"]: order for order in (json.loads(message.body) for message in messages)}
        columns = {name: [order[name] for order in orders.values()] for name in ("order", "customer", "amount")}
        while True:
            try:
                self._connect().execute(CONSUME, {**columns, "at": at})
            except psycopg.OperationalError as error:
                log.warning("the database is away or busy, the messages are tried again: %s", error)
                self._connection = None
                time.sleep(PAUSE_S)
            else:
                return

    def _connect(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            self._connection = psycopg.connect(self._conninfo, autocommit=True)
        return self._connection


def main() -> None:
    name, described = sys.argv[1:]
    setting = Setting.parse(described)
    service = Service(name, setting)
    consumer = PushConsumer(
        name, name_servers=setting.name_server, listener=service.consume, consume_threads=1, consume_batch_size=BATCH,
        from_where=ConsumeFromWhere.FIRST_OFFSET,
    )  # fmt: skip
    with consumer.subscribe(TOPIC):
        say(ready=True)
        for _ in commands():
            pass


if __name__ == "__main__":
    main()
