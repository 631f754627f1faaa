"""Kill, restart, compare: the invariants that hold wherever the broker dies.

1. No acknowledged message is lost.
2. No message is delivered whose transaction was rolled back, is undecided, or never ran.
3. No half message gives two final messages.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from gantrymq.message import flags
from gantrymq.protocol.stored_message import pack_host
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.store.config import StoreConfig
from gantrymq.store.message_store import MessageStore
from tests.kill.ledger import Entry, Ledger, Plan
from tests.kill.server import Server
from tests.kill.workload import Reader, Workload

CATCH_UP_SECONDS = 30.0
SETTLE_SECONDS = 120.0
"""How long the check-backs of all open transactions may take."""
QUIET_SECONDS = 3.0
"""How long to wait after the last expected message. Duplicates would arrive by then (three check intervals)."""


@dataclass(slots=True)
class Outcome:
    """The result of a run."""

    seed: int
    rounds: int
    flush: str
    messages: int = 0
    confirmed: int = 0
    delivered: int = 0
    checked: int = 0
    plans: dict[str, int] = field(default_factory=dict)
    slowest_start_seconds: float = 0.0
    violations: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


async def run(
    root: Path, rounds: int, seed: int, *, flush: str = "SYNC_FLUSH", say: Callable[[str], None] = lambda line: None
) -> Outcome:
    """``rounds`` kills at moments that ``seed`` decides; stops at the first round with a violation."""
    ledger = Ledger()
    server = Server(root, flush)
    outcome = Outcome(seed, rounds, flush)
    workload = Workload(server.name_servers, ledger, seed)
    reader = Reader(server.name_servers, ledger)
    try:
        outcome.slowest_start_seconds = server.start()
        await reader.start()
        await workload.start()
        await _kill_again_and_again(server, ledger, reader, outcome, say)
        if not outcome.violations:
            say("waiting for the check-backs of what was left open")
            await _settle(workload, ledger, reader, outcome)
    finally:
        await workload.close()
        await reader.close()
        server.kill()
    outcome.violations += doubled_finals(server.store)
    outcome.messages, outcome.confirmed = len(ledger.entries), len(ledger.confirmed())
    outcome.delivered, outcome.checked = reader.read, workload.listener.checked
    outcome.plans = {plan.value: sum(entry.plan is plan for entry in ledger.entries) for plan in Plan}
    return outcome


async def _kill_again_and_again(
    server: Server, ledger: Ledger, reader: Reader, outcome: Outcome, say: Callable[[str], None]
) -> None:
    chance = random.Random(outcome.seed)
    for number in range(1, outcome.rounds + 1):
        await asyncio.sleep(chance.uniform(0.2, 2.0))
        server.kill()
        promised = ledger.confirmed()
        started = await asyncio.to_thread(server.start)
        outcome.slowest_start_seconds = max(outcome.slowest_start_seconds, started)
        await reader.wait_until(partial(_all_delivered, promised), CATCH_UP_SECONDS)
        lost = [entry.number for entry in promised if not entry.delivered]
        outcome.violations = ledger.violations() + [f"acknowledged message {number} is lost" for number in lost]
        say(f"round {number}/{outcome.rounds}: {len(promised)} acknowledged, {reader.read} delivered, {started:.2f} s")
        if outcome.violations:
            return


def _all_delivered(entries: list[Entry]) -> bool:
    return all(entry.delivered for entry in entries)


async def _settle(workload: Workload, ledger: Ledger, reader: Reader, outcome: Outcome) -> None:
    await workload.stop_sending()
    await reader.wait_until(lambda: not ledger.missing(), SETTLE_SECONDS)
    await asyncio.sleep(QUIET_SECONDS)
    await reader.catch_up()
    outcome.violations = ledger.violations()
    outcome.violations += [f"message {entry.number} ({entry.plan.value}) is lost" for entry in ledger.missing()]


def doubled_finals(root: Path) -> list[str]:
    """The half messages that have more than one final message in the log."""
    config = StoreConfig(
        root=str(root), mapped_file_size_commit_log=8388608, mapped_file_size_consume_queue=60000,
        max_hash_slot_num=5000, max_index_num=20000,
    )  # fmt: skip
    store = MessageStore.open(config, OsDisk(), SystemClock(), pack_host("127.0.0.1:1"))
    finals = Counter(
        record.prepared_transaction_offset
        for record in store.scan(store.min_log_offset)
        if flags.transaction_type(record.sys_flag) == flags.COMMITTED
    )
    return [
        f"half message at log offset {place} has {count} final messages" for place, count in finals.items() if count > 1
    ]
