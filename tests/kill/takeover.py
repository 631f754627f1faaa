"""The primary is killed under load, and its replica is started as primary: what was answered is there, once.

``python -m tests.kill.takeover --runs 50 --seed 7`` does it many times and prints the figures. CI does it once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import secrets
import sys
import tempfile
from collections import Counter
from pathlib import Path

from gantrymq.aio import LocalTransactionState, Message, MessageView, PullConsumer, TransactionProducer
from gantrymq.errors import GantryError
from tests.kill.pair import Pair

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
TOPIC, LOADS, FIRST = "orders", 6, b"begin"


class Book:
    """What the application knows: its outcomes, and about which of them it was asked."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.outcomes: dict[bytes, LocalTransactionState] = {}
        self.asked: Counter[bytes] = Counter()
        self.answered: set[bytes] = set()
        """Those whose end was answered."""

    def due(self) -> set[bytes]:
        """What must be delivered: committed, and either answered or checked back."""
        known = self.answered | self.asked.keys()
        return {body for body, outcome in self.outcomes.items() if outcome is COMMIT and body in known}

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        outcome = self._rng.choice((COMMIT, COMMIT, ROLLBACK, UNKNOWN))
        self.outcomes[message.body] = COMMIT if outcome is UNKNOWN else outcome
        return outcome

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        self.asked[message.body] += 1
        return self.outcomes.get(message.body, ROLLBACK)


async def delivered(consumer: PullConsumer) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for queue in await consumer.queues(TOPIC):
        offset = 0
        while (pulled := await consumer.pull(queue, offset, wait_ms=0)).messages:
            found.update(message.body for message in pulled.messages)
            offset = pulled.next_offset
    return found


async def load(producer: TransactionProducer, book: Book, number: int) -> None:
    """Transactions one after the other, until the primary is gone."""
    for count in range(1_000_000):
        body = b"%d-%d" % (number, count)
        try:
            result = await producer.send_in_transaction(Message(TOPIC, body))
        except GantryError:
            return
        if result.decided:
            book.answered.add(body)


async def play(pair: Pair, book: Book, seconds: float) -> Counter[bytes]:
    """What is delivered in the end."""
    first, second = pair.machines
    async with (
        TransactionProducer("g", name_servers=pair.name_servers, listener=book, end_retries=0) as producer,
        PullConsumer(name_servers=pair.name_servers) as consumer,
    ):
        await until_known(producer)
        loads = [asyncio.create_task(load(producer, book, number)) for number in range(LOADS)]
        while len(book.answered) < 150:
            await asyncio.sleep(0.01)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(first.kill)
        await asyncio.gather(*loads)
        asked_before = book.asked.copy()
        await asyncio.to_thread(second.kill)
        await asyncio.to_thread(second.serve, "ASYNC_MASTER")
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


async def until_known(producer: TransactionProducer) -> None:
    """Until the primary takes messages, and the replica confirms them."""
    while True:
        with contextlib.suppress(GantryError):
            if (await producer.send(Message(TOPIC, FIRST))).status.name == "SEND_OK":
                return
        await asyncio.sleep(0.1)


def run(root: Path, seed: int, role: str = "SYNC_MASTER") -> Book:
    """One takeover. Raises AssertionError when a promise is broken. ``role``: of the primary, before it is killed."""
    rng = random.Random(seed)
    book = Book(rng)
    with Pair(root) as pair:
        pair.machines[0].serve(role)
        pair.machines[1].serve("SLAVE")
        found = asyncio.run(asyncio.wait_for(play(pair, book, rng.random()), 200))
    del found[FIRST]
    assert book.due() <= found.keys(), "an acknowledged commit is lost"
    assert max(found.values()) == 1, "delivered twice"
    assert all(book.outcomes.get(body) is COMMIT for body in found), "something was delivered that is not committed"
    return book


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kill.takeover", description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="how many pairs are started and lose their primary")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), help="of the first run")
    parser.add_argument("--role", default="SYNC_MASTER", help="ASYNC_MASTER promises less: some takeovers fail")
    given = parser.parse_args()
    decided = failed = 0
    for seed in range(given.seed, given.seed + given.runs):
        with tempfile.TemporaryDirectory() as directory:
            try:
                decided += len(run(Path(directory), seed, given.role).answered)
            except (AssertionError, TimeoutError) as error:
                failed += 1
                print(f"seed {seed}: {error!r}", flush=True)
    print(f"{given.runs} takeovers, {decided} decided transactions, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
