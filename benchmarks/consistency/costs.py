"""Two costs of gantrymq.sql alone: many messages in one transaction, and a claim against a read."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import event

from benchmarks.consistency.setting import ORDERS
from benchmarks.consistency.ways import engine_of
from benchmarks.consistency.world import World
from gantrymq import Message
from gantrymq.sql import Transactions
from gantrymq.sql.rows import transaction_id
from gantrymq.sql.rules.claim import Query
from gantrymq.sql.sqlalchemy.database import SqlAlchemyDatabase
from gantrymq.sql.transaction.local import Local
from gantrymq.sql.transaction.settings import TransactionsConfig

TOPIC: Final = "costs"
NUMBERS: Final = (1, 10, 100)


def _timed_ms(work: Callable[[], object], times: int) -> float:
    """The median of some calls."""
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)


def many_messages(world: World, turns: int, times: int) -> dict[str, Any]:
    """Milliseconds of a transaction with so many messages, one client; the numbers are measured in turns."""
    found: dict[int, list[float]] = {number: [] for number in NUMBERS}
    with Transactions(
        "costs", engine_of(world.setting), name_servers=world.setting.name_server, topics=[TOPIC]
    ) as ours:
        ours.create_table()

        def pay(number: int) -> None:
            with ours.begin() as tx:
                tx.send(*(Message(TOPIC, b"x" * 64) for _ in range(number)))

        for number in NUMBERS:
            pay(number)
        for _ in range(turns):
            for number in NUMBERS:
                found[number].append(_timed_ms(lambda number=number: pay(number), times))  # type: ignore[misc]
    medians = {number: statistics.median(values) for number, values in found.items()}
    return {
        "ms": {str(number): round(value, 2) for number, value in medians.items()},
        "ratio_100_to_1": round(medians[100] / medians[1], 2),
    }


def claims(world: World, times: int) -> dict[str, Any]:
    """What a check-back costs when it finds the row (a read), and when it must claim the transaction."""
    engine = engine_of(world.setting)
    local = Local(
        SqlAlchemyDatabase(engine), TransactionsConfig(group="claims", name_servers=world.setting.name_server)
    )
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    made = [transaction_id.make(number, local.rng.below(transaction_id.CHANCES)) for number in range(times)]
    fresh, found = iter(made), iter(made)

    def claim() -> None:
        which = next(fresh)
        local.ask(Query.FIND, which)
        local.ask(Query.CLAIM, which)

    claim_ms = _timed_ms(claim, times)
    of_claim = len(statements) / times
    statements.clear()
    read_ms = _timed_ms(lambda: local.ask(Query.FIND, next(found)), times)
    of_read = len(statements) / times
    engine.dispose()
    return {
        "read_ms": round(read_ms, 3), "claim_ms": round(claim_ms, 3), "statements_of_read": of_read,
        "statements_of_claim": of_claim,
    }  # fmt: skip


def measure(world: World, short: bool) -> dict[str, Any]:
    world.rows(ORDERS, "SELECT 1")
    return {
        "messages": many_messages(world, turns=2 if short else 5, times=3 if short else 10),
        "claim": claims(world, times=20 if short else 200),
    }
