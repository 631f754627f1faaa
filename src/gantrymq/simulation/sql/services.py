"""Processes with a database whose local transactions send messages by gantrymq.sql, and processes that only check.

Everything between the user's block and the database's connection is the product's own code; only the connections are
simulated (``database``).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from gantrymq.client.listener import ListenerAnswer, TransactionListener
from gantrymq.client.results import TransactionSendResult
from gantrymq.client.sending.sent_half import SentHalf
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import GantryError
from gantrymq.message import properties
from gantrymq.message.message import Message, MessageView
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.simulation.database.connection import DIALECT, DatabaseDoor, Line, SimDriver
from gantrymq.simulation.database.errors import Error
from gantrymq.simulation.database.outbox_statements import of_outbox
from gantrymq.simulation.database.statements import Language, Meaning, add, insert, of_outcomes, select
from gantrymq.simulation.database.tables import Values
from gantrymq.simulation.judging.checker import COMMITTED, ROLLED_BACK
from gantrymq.simulation.judging.history import History
from gantrymq.simulation.workload import PLAIN_TOPIC, QUEUES, TOPIC
from gantrymq.sql.async_transactions import AsyncConnectionTransactions
from gantrymq.sql.connections.async_transactions import AsyncConnectionTransaction
from gantrymq.sql.rows.outbox_table import OUTBOX
from gantrymq.sql.rows.tables import CLEANED, OUTCOMES, Outcome, OutcomeStatements
from gantrymq.sql.transaction.checker import AsyncOutcomeChecker
from gantrymq.sql.transaction.local import AsyncLocal
from gantrymq.testing.local.node import Node, Process

GROUP: Final = "payment-service"
TOPICS: Final = (TOPIC, PLAIN_TOPIC)
LONGEST_S: Final = 4.0
"""``longest_transaction``: a check-back of a sender that lives comes this long after its half message."""
TOO_OLD_S: Final = 12.0
"""What is a day for users: a local transaction that is older cannot commit, so that old rows can be deleted."""
KEPT_S: Final = 2 * TOO_OLD_S
"""How long outcome rows are kept; what is a week for users."""
CLAIM_TIMEOUT_S: Final = 1.0
ITEMS: Final = ("apples", "pears", "plums")

ORDER: Final = "INSERT INTO orders (name) VALUES (?)"
TAKE: Final = "UPDATE stock SET amount = amount + ? WHERE item = ?"
COUNT: Final = "SELECT item, amount FROM stock WHERE item = ?"
PLACE: Final = "INSERT INTO stock (item, amount) VALUES (?, ?)"
TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS orders (name VARCHAR(100) PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS stock (item VARCHAR(100) PRIMARY KEY, amount INT)",
)
KEYED: Final = 0.8
"""So many transactions have a key, where there are keys."""
UNKEYED: Final = 0.2
"""So many of their messages have none."""
KINDS: Final = ("commit", "rollback", "savepoints", "busy", "slow", "too slow", "die", "die late", "no messages")
WEIGHTS: Final = (6, 2, 4, 5, 3, 1.5, 3, 2, 0.5)


def language(
    wall_ms: Callable[[], int], claim_timeout_s: float = CLAIM_TIMEOUT_S, *, ordered: bool = False
) -> Language:
    """All statements that these services execute. ``wall_ms``: the clock of the database. ``ordered``: the outbox has
    the columns that ordering keys need."""
    ours: dict[str, Meaning] = {
        ORDER: lambda work, name: insert(work, "orders", name),
        TAKE: lambda work, amount, item: add(work, "stock", amount, item),
        COUNT: lambda work, item: select(work, "stock", item),
        PLACE: lambda work, item, amount: insert(work, "stock", item, amount),
    }
    statements = OutcomeStatements(DIALECT, OUTCOMES, round(claim_timeout_s * 1000))
    outbox = of_outbox(DIALECT, wall_ms, ordered=ordered)
    return Language((ours, of_outcomes(statements, OUTCOMES, claim_timeout_s, wall_ms), outbox))


@dataclass(slots=True)
class Ledger:
    """What the history must know of all local transactions: whose messages are whose, and what the database says.

    Every message has a row of its own in the table ``orders``, which is inserted where the message is sent. So the
    table says which messages have to arrive.
    """

    history: History
    injected: Counter[str]
    messages: dict[str, list[str]] = field(default_factory=dict)
    """By the id of the local transaction."""
    away: str = "refuse"
    """``when_broker_is_away`` of all services."""
    ordered: bool = False
    """Messages have ordering keys."""
    row_limit: int = 100_000
    outbox: set[str] = field(default_factory=set)
    """Ids of the rows that wait for a broker."""
    most_rows: int = 0

    @property
    def by_row(self) -> bool:
        """Messages may go by row."""
        return self.ordered or self.away != "refuse"

    def watch(self, table: str, key: str, values: Values | None) -> None:
        """A row of the database has become durable."""
        if table == "orders" and values is not None:
            self.history.add("row", tx=key, state=COMMITTED)
        elif table == OUTBOX:
            self._row(key, values)
        elif table == OUTCOMES and key == CLEANED and values is not None:
            self._cleaned(values[2])
        elif table == OUTCOMES and values is not None and values[1] == Outcome.ROLLED_BACK:
            self.injected["local transaction claimed by a check"] += 1
            for name in self.messages.get(key, ()):
                self.history.add("row", tx=name, state=ROLLED_BACK)

    def _row(self, key: str, values: Values | None) -> None:
        if values is None:
            self.outbox.discard(key)
            self.injected["row of the outbox sent"] += 1
        elif key not in self.outbox:
            self.outbox.add(key)
            self.injected["row put into the outbox"] += 1
            self.most_rows = max(self.most_rows, len(self.outbox))

    def note(self, event: str, properties_of: Mapping[str, str], body: bytes, state: str, **more: Any) -> None:
        """An end or an answer about a half message.

        A message that may go by row has several half messages: its own, and one for each process that has tried to
        send the row. All but one are rolled back, so a rollback belongs to one half message and not to the message.
        """
        name = body.decode()
        if self.by_row and state != LocalTransactionState.COMMIT.name:
            name = f"{name}/{properties_of.get(properties.LOCAL_TRANSACTION, '').partition(' ')[0]}"
        self.history.add(event, tx=name, **more)

    def _cleaned(self, horizon: str) -> None:
        for transaction_id in [old for old in self.messages if old < horizon]:
            for name in self.messages.pop(transaction_id):
                self.history.add("cleaned", tx=name)


class _Checker:
    """The product's checker; its answers are in the history."""

    decisive: Final = True

    def __init__(self, local: AsyncLocal, ledger: Ledger) -> None:
        self._checker = AsyncOutcomeChecker(local)
        self._ledger = ledger
        self.execute_local_transaction = self._checker.execute_local_transaction

    async def check_local_transaction(self, message: MessageView) -> ListenerAnswer:
        answer = await self._checker.check_local_transaction(message)
        state = answer.state.name
        self._ledger.note("check", message.properties, message.body, state, answer=state)
        return answer


class SimTransaction(AsyncConnectionTransaction):
    """A local transaction on a simulated connection."""

    driver_of = staticmethod(SimDriver)


class SimTransactions(AsyncConnectionTransactions):
    """The product's, in a simulated process with a simulated database."""

    def __init__(
        self, group: str, line: Line, *, process: Process, ledger: Ledger, wait_for_brokers: bool = True
    ) -> None:
        super().__init__(
            group, line.connect, name_servers=process.name_servers, longest_transaction=LONGEST_S,
            claim_timeout=CLAIM_TIMEOUT_S, keep_rows=None, topics=list(TOPICS), send_timeout_ms=3000,
            default_topic_queue_nums=QUEUES, wait_for_brokers=wait_for_brokers,
            when_broker_is_away=ledger.away, row_limit=ledger.row_limit,
        )  # fmt: skip
        self._producer_settings["outside"] = process.outside
        self._database = DatabaseDoor(line)
        self._clock, self._rng = process.outside.clock, process.outside.rng
        self._ledger = ledger

    async def _connect(self) -> TransactionListener:
        await super()._connect()
        return _Checker(self._local, self._ledger)

    async def start(self) -> None:
        running = self._running
        await super().start()
        if self._running is not running:
            _note_ends(self._producer(), self._ledger)

    @property
    def started(self) -> bool:
        return self._running is not None

    async def clean_now(self) -> None:
        """Delete old outcome rows, as each process does it in the background once an hour."""
        await self._clean(KEPT_S)

    def begin(self) -> SimTransaction:
        return SimTransaction(self.start, self._enlist, self._database.connect, ours=True)


def _note_ends(producer: TransactionProducer, ledger: Ledger) -> None:
    """Have the ends that are sent, and those that were confirmed, in the history."""
    sender = producer._halves
    finish = sender.finish

    def note(half: SentHalf, outcome: ListenerAnswer, confirmed: bool) -> None:
        state = outcome.state.name
        ledger.note("end", half.given.properties, half.given.body, state, decision=state, confirmed=confirmed)

    async def noted(half: SentHalf, outcome: ListenerAnswer) -> TransactionSendResult:
        note(half, outcome, False)
        result = await finish(half, outcome)
        if result.decided:
            note(half, outcome, True)
        return result

    sender.finish = noted  # type: ignore[method-assign]


class Undo(Exception):
    """The user's code wants no commit."""


class ServiceProcess:
    """One process of the service."""

    def __init__(
        self, process: Process, line: Line, ledger: Ledger, rng: random.Random, die: Callable[[Node], None]
    ) -> None:
        """``die``: ends this process."""
        self.node, self.clock = process.node, process.clock
        self.address = process.address
        self.line = line
        self.transactions = SimTransactions(
            GROUP, line, process=process, ledger=ledger, wait_for_brokers=rng.random() < 0.5
        )
        self._ledger = ledger
        self._rng = rng
        self._die = die
        self._injected = ledger.injected
        self._keys: WeakKeyDictionary[AsyncConnectionTransaction, str] = WeakKeyDictionary()
        """The ordering keys of running transactions."""
        # Of a message by row, a check may come about the half message of any process that sends the row.
        self._immunity_ms = 0 if ledger.by_row else round(LONGEST_S * 1000)

    async def start(self) -> None:
        """Raises GantryError and the database's Error."""
        await self.transactions.start()

    async def order(self, number: int) -> None:
        """One call of the service: one local transaction, and another one when the database could not serialize it."""
        attempts = iter(range(1, 100))
        kind = self._rng.choices(KINDS, WEIGHTS)[0]
        if kind == "die":
            self.node.loop.call_later(self._rng.uniform(0, 0.04), self.node.unless_dead(self._end))
        try:
            await self.transactions.run(lambda tx: self._work(tx, f"{kind}-{number}-{next(attempts)}", kind))
        except (GantryError, Error, Undo) as error:
            self._injected[f"local transaction ended by {type(error).__name__}"] += 1
        else:
            self._injected["local transaction committed"] += 1

    def _end(self) -> None:
        self._die(self.node)

    async def _work(self, tx: AsyncConnectionTransaction, name: str, kind: str) -> None:
        rng = self._rng
        if kind == "no messages":
            await self._take(tx)
            return
        if self._ledger.ordered and rng.random() < KEYED:
            self._keys[tx] = rng.choice(ITEMS)
            await tx.execute(TAKE, (-1, self._keys[tx]))  # so transactions of one key wait for each other
        for number in range(rng.randint(1, 4)):
            await self._send(tx, f"{name}.{number}")
        if kind == "savepoints":
            await self._savepoints(tx, name)
        elif kind == "busy":
            await self._take(tx)
        elif kind == "slow":
            await asyncio.sleep(rng.uniform(1, 2 * LONGEST_S))
        elif kind == "too slow":
            await asyncio.sleep(rng.uniform(TOO_OLD_S, 1.5 * KEPT_S))
        elif kind == "die late":
            self.node.loop.call_later(rng.uniform(0, 0.01), self.node.unless_dead(self._end))
        if kind != "slow" and rng.random() < 0.3:
            await self._send(tx, f"{name}.last")
        if kind == "rollback":
            raise Undo

    async def _send(self, tx: AsyncConnectionTransaction, name: str) -> None:
        """A row and a message about it."""
        message = Message(self._rng.choice(TOPICS), name.encode(), keys=[name])
        if self._rng.random() < 0.5:
            await tx.execute(ORDER, (name,))
            self._sent(tx, name, message)
        else:
            self._sent(tx, name, message)
            await tx.execute(ORDER, (name,))

    def _sent(self, tx: AsyncConnectionTransaction, name: str, message: Message) -> None:
        key = self._keys.get(tx)
        of_key = {} if key is None or self._rng.random() < UNKEYED else {"order_key": key}
        self._ledger.history.add(
            "begin", tx=name, immunity_ms=self._immunity_ms, sender=self.node.name, decisive=True, local=True, **of_key
        )
        tx.send(message, **of_key)
        self._ledger.messages.setdefault(tx.transaction_id or "", []).append(name)

    async def _savepoints(self, tx: AsyncConnectionTransaction, name: str) -> None:
        """Some are rolled back, some are not, and some are inside of others."""
        for number in range(self._rng.randint(1, 3)):
            try:
                async with tx.savepoint():
                    await self._send(tx, f"{name}.{number}.outer")
                    if self._rng.random() < 0.5:
                        async with tx.savepoint():
                            await self._send(tx, f"{name}.{number}.inner")
                            self._perhaps_undo()
                    self._perhaps_undo()
            except Undo:
                self._injected["savepoint rolled back"] += 1

    def _perhaps_undo(self) -> None:
        if self._rng.random() < 0.4:
            raise Undo

    async def _take(self, tx: AsyncConnectionTransaction) -> None:
        """Changes of rows that others want, too, in any order: there are waits, deadlocks and conflicts."""
        for item in self._rng.sample(ITEMS, 2):
            if self._rng.random() < 0.5:
                await tx.execute(COUNT, (item,))
            await tx.execute(TAKE, (-1, item))


class CheckerProcess:
    """One process that only checks, perhaps with another database than that of the service."""

    def __init__(self, process: Process, line: Line, ledger: Ledger) -> None:
        self.node, self.clock = process.node, process.clock
        self.address = process.address
        self.line = line
        self.transactions = SimTransactions(GROUP, line, process=process, ledger=ledger)

    async def start(self) -> None:
        """Raises GantryError and the database's Error."""
        await self.transactions.start()


Member = ServiceProcess | CheckerProcess
