"""All processes of the benchmark: started, killed, started again, and ended whatever happens."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import uvloop

from benchmarks.consistency import schema
from benchmarks.consistency.postgres import Postgres
from benchmarks.consistency.roles import START_LIMIT_S, Program, Role, Server
from benchmarks.consistency.setting import DOWNSTREAM, ORDERS, OUTBOX_WAY, TOPIC, Setting
from gantrymq.aio import Admin

QUEUES: Final = 4
LOAD_SLACK_S: Final = 90.0
"""How much longer than asked a load may take: calls that hang are a part of what is measured."""


class World:
    """One PostgreSQL server, one broker, and the roles."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.postgres = Postgres(directory)
        self.broker = Server(directory)
        self.setting = Setting(
            self.postgres.port, f"127.0.0.1:{self.broker.name_port}", f"127.0.0.1:{self.broker.broker_port}",
            str(directory),
        )  # fmt: skip
        described = self.setting.text()
        self.consumers = [Role("consumer", name, described, log=directory / f"{name}.log") for name in DOWNSTREAM]
        self.relay = Role("relay", described, log=directory / "relay.log")
        self.services: dict[str, Role] = {}
        self._numbers = itertools.count(1, 100_000)

    def start(self) -> None:
        self.postgres.start()
        schema.create(self.postgres)
        self.broker.start()
        uvloop.run(self._make_topic())
        for consumer in self.consumers:
            consumer.begin_to_start()
        for consumer in self.consumers:
            consumer.answer(START_LIMIT_S)

    async def _make_topic(self) -> None:
        async with Admin(name_servers=self.setting.name_server) as admin:
            await admin.create_topic(TOPIC, QUEUES)

    def start_service(self, way: str) -> Role:
        """The order service that pays in this way, with its relay where it has one."""
        if way == OUTBOX_WAY and self.relay.process is None:
            self.relay.start()
        if way not in self.services:
            log = self.directory / f"orders-{way}.log"
            self.services[way] = Role("order_service", way, self.setting.text(), log=log)
        service = self.services[way]
        if service.process is None:
            service.start()
        return service

    def new_orders(self, count: int) -> int:
        """Numbers for ``count`` open orders that nobody else gets; the first of them."""
        first = next(self._numbers)
        schema.open_orders(self.postgres, first, count)
        return first

    def load(self, way: str, clients: int, seconds: float, count: int, rate: float = 0) -> tuple[int, dict[str, Any]]:
        """Have the service of this way pay orders; the first number, and what the service saw."""
        first, service = self.new_orders(count), self.start_service(way)
        service.ask(first=first, count=count, clients=clients, seconds=seconds, rate=rate)
        return first, service.answer(seconds + LOAD_SLACK_S)

    def rows(self, database: str, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a query, in one of the databases."""
        with self.postgres.connect(database) as connection:
            return connection.execute(query.encode(), parameters).fetchall()

    def prepared(self) -> int:
        """Transactions that are prepared, and neither committed nor rolled back."""
        return int(self.rows(ORDERS, "SELECT count(*) FROM pg_prepared_xacts")[0][0])

    def stop(self) -> None:
        """End everything, in the order of who needs whom."""
        programs: list[Program] = [*self.services.values(), self.relay, *self.consumers, self.broker]
        for program in programs[:-1]:
            program.kill()
        self.broker.stop()
        self.postgres.stop()


@contextmanager
def world(directory: Path) -> Iterator[World]:
    """Everything but the order services, running; nothing of it is left behind."""
    made = World(directory)
    try:
        made.start()
        yield made
    finally:
        made.stop()
