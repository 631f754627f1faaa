"""Kill consumers at every step of an effect that must happen once, and brokers and databases; then count the effects.

``python -m tests.sql.kill.run --inbox --database postgresql --kills 300 --seed 1``.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import text

from gantrymq import Message, Producer
from gantrymq.aio import PullConsumer
from gantrymq.message.queues import MessageQueue
from gantrymq.sql import Transactions
from tests.kill.server import Server
from tests.sql.kill import points
from tests.sql.kill.consumer import FOLLOWED, KINDS, MOST_BEFORE, QUEUES, SCHEMA, WORK, Setting, answer, consume
from tests.sql.kill.databases import KINDS as DATABASES
from tests.sql.kill.databases import Database
from tests.sql.kill.service import fork, in_child, kill

OF_A_KIND = {"each": 2, "batch": 2, "ordered": 1, "chain": 2}
"""Members of one group that live at the same time."""
GIVE_UP_SECONDS = 90.0
"""After that a consumer that should have died counts as hanging, and what has not happened as lost."""


@dataclass(slots=True)
class InboxOutcome:
    """What a run found."""

    database: str
    seed: int
    kills: dict[str, int] = field(default_factory=dict)
    messages: int = 0
    effects: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)


class InboxRun:
    """One run: a broker, a database, and consumers of four kinds that die."""

    def __init__(self, database: str, seed: int, root: Path, say: Callable[[str], None]) -> None:
        self.outcome = InboxOutcome(database, seed)
        self._rng = random.Random(seed)
        self._say = say
        self._log = root / "consumers.log"
        self._server = Server(root, "SYNC_FLUSH")
        self._database: Database = DATABASES[database](root)
        self._setting = Setting(self._database.url, self._server.name_servers, self._log)
        self._victims: dict[int, tuple[str, str, float]] = {}
        """By process id: kind, point, and when it began."""
        self._others: list[int] = []

    def run(self, kills: int, server_kills: int) -> InboxOutcome:
        """``kills``: of consumers; ``server_kills``: of the broker, and of the database."""
        # Each one that dies may have had so many before, and the kind ``batch`` takes many at once.
        count = self.outcome.messages = (kills // len(KINDS) + 1) * (MOST_BEFORE + 2) * QUEUES
        try:
            self._server.start()
            self._database.start()
            in_child(lambda: self._prepare(count), self._log)
            self._others.append(fork(lambda: answer(self._setting), self._log))
            every = max(1, kills // max(1, server_kills))
            for number in range(kills):
                if server_kills and number % every == every - 1:
                    self._kill_a_server(number // every)
                self._one(number)
                if number % 50 == 49:
                    self._say(f"{number + 1} of {kills} kills")
            while self._victims:
                self._wait_for_one()
            self._finish()
        finally:
            for process in [*self._victims, *self._others]:
                kill(process)
            self._server.kill()
            self._database.kill()
        return self.outcome

    def _prepare(self, count: int) -> None:
        """In a child, because it starts threads: tables, topics, and all messages."""
        engine = self._setting.engine()
        with engine.begin() as connection:
            for statement in SCHEMA:
                connection.exec_driver_sql(statement)
            for queue in range(QUEUES):
                values = {"queue": queue, "last": queue - QUEUES}
                connection.execute(text("INSERT INTO queues VALUES (:queue, :last, 0)"), values)
        Transactions("none", engine, name_servers=self._setting.name_servers).create_table()
        with Producer("prepare", name_servers=self._setting.name_servers, default_topic_queue_nums=QUEUES) as producer:
            producer.send(Message(FOLLOWED, "first"))
            brokers = {queue.broker_name for queue in producer.queues(WORK)}
            for number in range(count):
                queue = MessageQueue(WORK, min(brokers), number % QUEUES)
                producer.send(Message(WORK, b"%d" % number, keys=[str(number)]), queue)

    def _one(self, number: int) -> None:
        kind = KINDS[number % len(KINDS)]
        while [victim[0] for victim in self._victims.values()].count(kind) >= OF_A_KIND[kind]:
            self._wait_for_one()
        point = points.CONSUMER[number // len(KINDS) % len(points.CONSUMER)]
        seed = self._rng.randrange(2**32)
        child = fork(lambda: consume(self._setting, kind, point, seed), self._log)
        self._victims[child] = kind, point, time.monotonic()

    def _wait_for_one(self) -> None:
        while True:
            for process, (kind, point, began) in list(self._victims.items()):
                done, status = os.waitpid(process, os.WNOHANG)
                late = time.monotonic() - began > GIVE_UP_SECONDS
                if done or late:
                    del self._victims[process]
                    if late:
                        kill(process)
                    if late or not os.WIFSIGNALED(status):
                        self.outcome.violations.append(f"a consumer ({kind}) that should die at {point} does not")
                    self._count(f"{kind} {point}")
                    return
            time.sleep(0.002)

    def _count(self, what: str) -> None:
        self.outcome.kills[what] = self.outcome.kills.get(what, 0) + 1

    def _kill_a_server(self, which: int) -> None:
        if which % 2:
            self._server.kill()
            self._server.start()
            self._count("broker")
        elif self.outcome.database != "sqlite":
            self._database.kill()
            self._database.start()
            self._count("database")

    def _finish(self) -> None:
        """Consume the rest, and compare."""
        wanted = self.outcome.messages
        for kind in KINDS:
            self._others.append(fork(lambda kind=kind: consume(self._setting, kind, None, 0), self._log))  # type: ignore[misc]
        engine, end = self._setting.engine(), time.monotonic() + GIVE_UP_SECONDS
        while True:
            with engine.connect() as connection:
                found = Counter((row[0], row[1]) for row in connection.execute(text("SELECT * FROM effects")))
                wrong = {row[0]: row[2] for row in connection.execute(text("SELECT * FROM queues")) if row[2]}
            followed = asyncio.run(self._followed())
            if time.monotonic() > end or (len(found) >= wanted * len(KINDS) and len(followed) >= wanted):
                break
            time.sleep(0.5)
        engine.dispose()
        for kind in KINDS:
            self.outcome.effects[kind] = sum(count for (of, _), count in found.items() if of == kind)
            for number in range(wanted):
                if found[kind, number] != 1:
                    self.outcome.violations.append(f"{kind}: message {number} had {found[kind, number]} effects")
        self.outcome.effects["followed"] = sum(followed.values())
        for number in range(wanted):
            if followed[number] != 1:
                self.outcome.violations.append(f"chain: message {number} was followed by {followed[number]} messages")
        for queue, count in wrong.items():
            self.outcome.violations.append(f"ordered: {count} messages of queue {queue} came out of order")

    async def _followed(self) -> Counter[int]:
        got: Counter[int] = Counter()
        async with PullConsumer(name_servers=self._setting.name_servers) as consumer:
            for queue in await consumer.queues(FOLLOWED):
                offset, last = await consumer.min_offset(queue), await consumer.max_offset(queue)
                while offset < last:
                    result = await consumer.pull(queue, offset, 256)
                    got.update(int(message.body) for message in result.messages if message.keys)
                    offset = result.next_offset
        return got
