"""The primary is killed under load, or an operator asks for it, and its replica takes over: what was answered is there,
once.

``python -m tests.kill.takeover --runs 50 --seed 7`` does it many times and prints the figures. CI does it once.

| way     | what happens to the primary                                   | how the replica takes over                |
|---------|---------------------------------------------------------------|-------------------------------------------|
| restart | it is killed                                                  | it is killed, and started as primary      |
| forced  | it is killed, and comes back as replica behind the takeover   | ``gantry cluster failover --force``       |
| planned | it becomes a replica; then the other way round, several times | ``gantry cluster failover``               |
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final, TypeAlias

from gantrymq.admin import Admin
from gantrymq.admin.brokers import Brokers
from gantrymq.admin.failover import Failover, carry_out, planned
from gantrymq.aio import LocalTransactionState, Message, MessageView, PullConsumer, TransactionProducer
from gantrymq.errors import ConfigError, GantryError
from gantrymq.runtime.clock import SystemClock
from tests.kill.pair import Pair

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
TOPIC, LOADS, FIRST = "orders", 6, b"begin"
TURNS = 4
Loads: TypeAlias = list[asyncio.Task[None]]


class Book:
    """What the application knows: its outcomes, and about which of them it was asked."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.outcomes: dict[bytes, LocalTransactionState] = {}
        self.asked: Counter[bytes] = Counter()
        self.under_way: set[bytes] = set()
        """Those whose call has not returned: whether their local transaction is going to run is not known."""
        self.answered: set[bytes] = set()
        """Those whose end was answered."""
        self.goes_on = self.closed = False
        """Whether the load goes on behind an error, and whether it ends."""
        self.refused = 0
        """Transactions that could not begin."""
        self.longest_s = 0.0
        """Of a transaction that began."""

    def due(self) -> set[bytes]:
        """What must be delivered: committed, and either answered or checked back."""
        known = self.answered | self.asked.keys()
        return {body for body, outcome in self.outcomes.items() if outcome is COMMIT and body in known}

    def decided(self, body: bytes) -> None:
        """Its end was answered."""
        self.answered.add(body)

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        outcome = self._rng.choice((COMMIT, COMMIT, ROLLBACK, UNKNOWN))
        self.outcomes[message.body] = COMMIT if outcome is UNKNOWN else outcome
        return outcome

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        self.asked[message.body] += 1
        return self.outcomes.get(message.body, UNKNOWN if message.body in self.under_way else ROLLBACK)


async def delivered(consumer: PullConsumer) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for queue in await consumer.queues(TOPIC):
        offset = 0
        while (pulled := await consumer.pull(queue, offset, wait_ms=0)).messages:
            found.update(message.body for message in pulled.messages)
            offset = pulled.next_offset
    return found


async def load(producer: TransactionProducer, book: Book, number: int) -> None:
    """Transactions one after the other, until the primary is gone, or the book is closed."""
    count = 0
    while not book.closed:
        body = b"%d-%d" % (number, count)
        count += 1
        begun = time.monotonic()
        book.under_way.add(body)
        try:
            result = await producer.send_in_transaction(Message(TOPIC, body))
        except GantryError:
            book.refused += 1
            if not book.goes_on:
                return
            await asyncio.sleep(0.02)
            continue
        finally:
            book.under_way.discard(body)
        book.longest_s = max(book.longest_s, time.monotonic() - begun)
        if result.decided:
            book.decided(body)


async def play(pair: Pair, book: Book, seconds: float, way: str) -> Counter[bytes]:
    """What is delivered in the end."""
    async with (
        TransactionProducer("g", name_servers=pair.name_servers, listener=book, end_retries=0) as producer,
        PullConsumer(name_servers=pair.name_servers) as consumer,
        Admin(pair.name_servers) as admin,
    ):
        await until_known(producer)
        loads = [asyncio.create_task(load(producer, book, number)) for number in range(LOADS)]
        while len(book.answered) < 150:
            await asyncio.sleep(0.01)
        await asyncio.sleep(seconds)
        asked_before = await WAYS[way](pair, book, admin.brokers, loads)
        while True:
            with contextlib.suppress(GantryError):
                found = await delivered(consumer)
                if book.due() <= found.keys():
                    break
            await asyncio.sleep(0.2)
        await asyncio.sleep(3)  # whatever would be asked or delivered wrongly comes within the check interval
        again = {body for body in book.answered if book.asked[body] > asked_before[body]}
        assert not again, "a decided transaction was asked again"
        return await delivered(consumer)


async def restart(pair: Pair, book: Book, _brokers: Brokers, loads: Loads) -> Counter[bytes]:
    """How often each transaction was asked about before the takeover."""
    first, second = pair.machines
    await asyncio.to_thread(first.kill)
    await asyncio.gather(*loads)
    asked_before = book.asked.copy()
    await asyncio.to_thread(second.kill)
    await asyncio.to_thread(second.serve, "ASYNC_MASTER")
    return asked_before


async def forced(pair: Pair, book: Book, brokers: Brokers, loads: Loads) -> Counter[bytes]:
    """The same. The old primary comes back, and follows."""
    first, _ = pair.machines
    await asyncio.to_thread(first.kill)
    await asyncio.gather(*loads)
    asked_before = book.asked.copy()
    await carry_out(brokers, await ready(brokers, forced=True), lambda _text: None, SystemClock())
    await asyncio.to_thread(first.serve, "SLAVE", 2)
    await ready(brokers, forced=False)
    return asked_before


async def planned_ones(pair: Pair, book: Book, brokers: Brokers, loads: Loads) -> Counter[bytes]:
    """The same. The load goes on meanwhile."""
    book.goes_on = True
    for _ in range(TURNS):
        await carry_out(brokers, await ready(brokers, forced=False), lambda _text: None, SystemClock())
        await asyncio.sleep(0.5)
    book.closed = True
    await asyncio.gather(*loads)
    return book.asked.copy()


async def ready(brokers: Brokers, *, forced: bool) -> Failover:
    """The plan, as soon as there can be one: the replica follows."""
    while True:
        with contextlib.suppress(ConfigError, GantryError):
            return await planned(brokers, "broker-pair", None, forced=forced)
        await asyncio.sleep(0.1)


async def until_known(producer: TransactionProducer) -> None:
    """Until the primary takes messages, and the replica confirms them."""
    while True:
        with contextlib.suppress(GantryError):
            if (await producer.send(Message(TOPIC, FIRST))).status.name == "SEND_OK":
                return
        await asyncio.sleep(0.1)


WAYS: Final = {"restart": restart, "forced": forced, "planned": planned_ones}


def run(root: Path, seed: int, role: str = "SYNC_MASTER", way: str = "restart") -> Book:
    """One takeover. Raises AssertionError when a promise is broken. ``role``: of the primary, before it is killed."""
    rng = random.Random(seed)
    book = Book(rng)
    with Pair(root) as pair:
        pair.machines[0].serve(role)
        pair.machines[1].serve("SLAVE")
        found = asyncio.run(asyncio.wait_for(play(pair, book, rng.random(), way), 200))
    del found[FIRST]
    assert book.due() <= found.keys(), "an acknowledged commit is lost"
    doubled = {body: (found[body], book.asked[body], body in book.answered) for body in found if found[body] > 1}
    assert not doubled, f"delivered twice: {doubled}"
    assert all(book.outcomes.get(body) is COMMIT for body in found), "something was delivered that is not committed"
    return book


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kill.takeover", description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="how many pairs are started and lose their primary")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), help="of the first run")
    parser.add_argument("--role", default="SYNC_MASTER", help="ASYNC_MASTER promises less: some takeovers fail")
    parser.add_argument("--way", choices=tuple(WAYS), default="restart", help="how the replica takes over")
    given = parser.parse_args()
    decided = failed = refused = 0
    longest_s = 0.0
    for seed in range(given.seed, given.seed + given.runs):
        with tempfile.TemporaryDirectory() as directory:
            try:
                book = run(Path(directory), seed, given.role, given.way)
                decided, refused = decided + len(book.answered), refused + book.refused
                longest_s = max(longest_s, book.longest_s)
            except (AssertionError, TimeoutError) as error:
                failed += 1
                print(f"seed {seed}: {error!r}", flush=True)
    print(f"{given.runs} takeovers, {decided} decided transactions, {failed} failed", flush=True)
    if given.way == "planned":
        print(f"{refused} transactions were refused; the longest took {longest_s:.2f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
