"""The processes and databases of a simulation of gantrymq.sql: they start, die and clean up."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Final

from gantrymq.errors import Closed, GantryError
from gantrymq.simulation.database.connection import DatabaseDoor, Line, LineFaults
from gantrymq.simulation.database.errors import Error
from gantrymq.simulation.database.server import SimDatabase
from gantrymq.simulation.database.tables import Isolation
from gantrymq.simulation.sql.services import (
    GROUP,
    ITEMS,
    PLACE,
    TABLES,
    CheckerProcess,
    Ledger,
    Member,
    ServiceProcess,
    SimTransactions,
    language,
)
from gantrymq.simulation.world.cluster import EPOCH_MS, Cluster
from gantrymq.testing.local.node import Node, Process

DATABASE: Final = "10.0.3.1"
OTHER_DATABASE: Final = "10.0.3.2"
LIMITED: Final = 0.3
"""So many runs have a limit that they reach."""
ROW_LIMIT: Final = 4
MISSED_AFTER_S: Final = (2.0, 10.0)
"""When a database notices that a client's host has lost its power."""


class SqlCluster:
    """Everything of this simulation that a plain cluster does not have."""

    def __init__(self, cluster: Cluster, away: str = "refuse", *, ordered: bool = False) -> None:
        """``away``: ``when_broker_is_away`` of the services. ``ordered``: messages have ordering keys."""
        self.cluster = cluster
        self.ledger = Ledger(cluster.history, cluster.injected, away=away, ordered=ordered)
        self.language = language(self._wall_ms, ordered=ordered)
        self.database_skew_ms = 0
        """How wrong the clock of the databases is."""
        self.faults = LineFaults()
        self.members: list[Member] = []
        rng = self.rng = random.Random(cluster.rng.randrange(1 << 62))
        self.isolation = rng.choice(list(Isolation))
        """Of the service's connections, also when they check."""
        self.database = self._database("database", DATABASE)
        self.database.data.watchers.append(self.ledger.watch)
        self.other = self._database("another database", OTHER_DATABASE)
        self._started = 0
        if away != "refuse" and self.rng.random() < LIMITED:
            self.ledger.row_limit = ROW_LIMIT

    def check_limit(self) -> None:
        """Each process counts the rows of all once a second, and its own ones at once. So there may be more rows than
        ``row_limit``, but not more than every process that there was may have inserted by itself."""
        most = self.ledger.row_limit * self._started
        if self.ledger.most_rows > most:
            self.cluster.errors.append(
                f"{self.ledger.most_rows} rows were in the outbox, and row_limit is {self.ledger.row_limit}"
            )

    def _database(self, name: str, address: str) -> SimDatabase:
        cluster = self.cluster
        rng = random.Random(self.rng.randrange(1 << 62))
        return SimDatabase(name, address, cluster.loop, rng, cluster.injected)

    def _wall_ms(self) -> int:
        return EPOCH_MS + int(self.cluster.loop.time() * 1000) + self.database_skew_ms

    async def create_tables(self) -> None:
        """In both databases."""
        process = self.cluster.process("migration", "10.0.1.1")
        for database in (self.database, self.other):
            line = self._line(database, process)
            await SimTransactions(
                GROUP, line, process=process, ledger=Ledger(self.cluster.history, Counter())
            ).create_table()
            door = DatabaseDoor(line)
            await door.alone([(statement, ()) for statement in TABLES])
            await door.alone([(PLACE, (item, 0)) for item in ITEMS])
        process.node.kill()

    def _line(self, database: SimDatabase, process: Process) -> Line:
        network, node = self.cluster.network, process.node
        return Line(
            database, self.language, self.isolation, self.faults,
            lambda: network.joined(process.address, database.address), lambda: node.alive,
        )  # fmt: skip

    # Members of the group.

    @property
    def services(self) -> list[ServiceProcess]:
        """Those that live, and have started."""
        return [
            member
            for member in self.members
            if isinstance(member, ServiceProcess) and member.node.alive and member.transactions.started
        ]

    async def start_service(self) -> None:
        """A new process of the service. Raises GantryError and the database's Error."""
        process = self._process("service")
        rng = random.Random(self.rng.randrange(1 << 62))
        await self._start(ServiceProcess(process, self._line(self.database, process), self.ledger, rng, self.die))

    async def start_checker(self, *, wrong_database: bool = False) -> None:
        """A new process that only checks; ``wrong_database``: somebody has given it the wrong database."""
        process = self._process("checker-of-another-database" if wrong_database else "checker")
        line = self._line(self.other if wrong_database else self.database, process)
        await self._start(CheckerProcess(process, line, self.ledger))

    def _process(self, name: str) -> Process:
        self._started += 1
        process = self.cluster.process(f"{name}-{self._started}", f"10.0.1.{self._started % 250 + 1}")
        process.clock.skew_ms = self.rng.randint(-1000, 1000)
        return process

    async def _start(self, member: Member) -> None:
        self.members.append(member)
        starting = member.node.start(member.start())
        await asyncio.wait([starting])
        if starting.cancelled():
            raise Closed("it was killed while it started")
        if (error := starting.exception()) is not None:
            self.kill(member.node)
            raise error

    def kill(self, node: Node) -> None:
        """SIGKILL; the databases learn it, too."""
        self.cluster.kill(node)
        for member in self.members:
            if member.node is node:
                member.line.cut()

    def die(self, node: Node) -> None:
        """It is killed, or its host loses its power, and nobody is told."""
        cluster = self.cluster
        if self.rng.random() < 0.7:
            cluster.injected["service killed in a local transaction"] += 1
            self.kill(node)
            return
        cluster.injected["host of a service vanished in a local transaction"] += 1
        cluster.history.add("gone", process=node.name)
        node.kill()
        (line,) = [member.line for member in self.members if member.node is node]
        cluster.loop.call_later(self.rng.uniform(*MISSED_AFTER_S), line.cut)

    async def clean(self) -> None:
        """One of the processes deletes old outcome rows."""
        if self.services:
            service = self.rng.choice(self.services)
            cleaning = service.node.start(service.transactions.clean_now())
            await asyncio.wait([cleaning])
            if not cleaning.cancelled():
                error = cleaning.exception()
                if error is not None and not isinstance(error, GantryError | Error):
                    raise error
                self.cluster.injected["old rows cleaned" if error is None else "cleaning failed"] += 1
