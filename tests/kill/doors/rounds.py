"""One run: kills under load, then quiet, then the judgement."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from gantrymq import Admin
from gantrymq.simulation.judging.checker import check
from gantrymq.simulation.judging.history import encode
from tests.kill.doors.by_grpc import GrpcClients
from tests.kill.doors.ledger import TOPIC, Ledger
from tests.kill.doors.processes import BROKER, PROXY, Processes
from tests.kill.doors.remoting import PopConsumer, Reader, RemotingProducers

TARGETS = ((PROXY,), (PROXY,), (BROKER,), (BROKER,), (BROKER, PROXY))
"""What one kill hits; each is as likely."""
SETTLE_SECONDS = 90.0
"""How long the check-backs of all open transactions, and the messages in hand at a kill, may take."""
QUIET_SECONDS = 2.5
"""Behind the last expected message. What comes twice would come by then."""
EACH = 3
"""Workers of each kind."""
FILE = "history.jsonl"


@dataclass(slots=True)
class Outcome:
    """The result of a run."""

    kills: int = 0
    transactions: int = 0
    plain: int = 0
    checks: int = 0
    missing: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    broken: dict[str, int] = field(default_factory=dict)
    """Rules to how often they were broken."""


async def run(root: Path, kills: int, seed: int, say: Callable[[str], None] = lambda line: None) -> Outcome:
    """``root`` has the history and the logs afterwards."""
    processes, ledger, chance = Processes(root), Ledger(), random.Random(seed)
    try:
        await asyncio.to_thread(processes.start)
        await asyncio.to_thread(_make_topic, processes.name_servers)
        await _play(processes, ledger, chance, kills, say)
    finally:
        processes.close()
    (root / FILE).write_text(encode(ledger.events))
    found = check(ledger.events)
    outcome = Outcome(kills, checks=ledger.checks, missing=ledger.missing())
    outcome.transactions = sum(sent.transaction for sent in ledger.sent.values())
    outcome.plain = len(ledger.sent) - outcome.transactions
    outcome.violations = [str(violation) for violation in found]
    for violation in found:
        outcome.broken[violation.rule] = outcome.broken.get(violation.rule, 0) + 1
    return outcome


def _make_topic(name_servers: str) -> None:
    with Admin(name_servers) as admin:
        admin.create_topic(TOPIC, queues=2)


async def _play(
    processes: Processes, ledger: Ledger, chance: random.Random, kills: int, say: Callable[[str], None]
) -> None:
    # Each client decides by chance of its own, so that it does not matter in which order they run.
    producers = RemotingProducers(processes.name_servers, ledger, random.Random(chance.random()))
    clients = GrpcClients(processes.doors, ledger, random.Random(chance.random()))
    reader, consumer = Reader(processes.name_servers, ledger), PopConsumer(processes.name_servers, ledger)
    for started in (producers, reader, consumer):
        await started.start()
    going_on = [*clients.start(), *(asyncio.create_task(_again(one, 0)) for one in (consumer.consume, clients.consume))]
    kinds = (producers.plain, producers.transaction, clients.plain, clients.transaction)
    load = Load(kinds)
    try:
        for number in range(1, kills + 1):
            await asyncio.sleep(chance.uniform(0.2, 1.2))
            hit = chance.choice(TARGETS)
            processes.kill(hit)
            ledger.history.add("fault", what=f"killed {' and '.join(hit)}")
            await asyncio.sleep(chance.uniform(0, 0.5))
            await asyncio.to_thread(processes.start_again, hit)
            await reader.read()
            say(f"kill {number}/{kills}: {' and '.join(hit)}; {len(ledger.sent)} messages, {ledger.checks} checks")
        await load.stop()
        await _settle(ledger, reader)
        ledger.history.add("quiet")
    finally:
        await load.stop()
        for task in going_on:
            task.cancel()
        await asyncio.gather(*going_on, return_exceptions=True)
        for closed in (producers, reader, consumer, clients):
            with contextlib.suppress(Exception):
                await closed.close()


class Load:
    """Producers at work."""

    def __init__(self, kinds: tuple[Callable[[], Awaitable[None]], ...]) -> None:
        self._stopping = False
        self._tasks = [asyncio.create_task(self._work(kind)) for kind in kinds for _ in range(EACH)]

    async def _work(self, kind: Callable[[], Awaitable[None]]) -> None:
        while not self._stopping:
            await kind()
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """Begin nothing more, and wait for what is under way."""
        self._stopping = True
        await asyncio.gather(*self._tasks)


async def _again(work: Callable[[], Awaitable[None]], pause: float) -> None:
    while True:
        await work()
        await asyncio.sleep(pause)


async def _settle(ledger: Ledger, reader: Reader) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SETTLE_SECONDS
    while ledger.missing() and loop.time() < deadline:
        await reader.read()
        await asyncio.sleep(0.2)
    await asyncio.sleep(QUIET_SECONDS)
    await reader.read()
