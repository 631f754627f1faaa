"""``--max`` bounds the work: what is asked one by one is counted, and does not grow with what waits."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gantrymq.admin import Admin
from gantrymq.admin.transaction_search import Wanted
from gantrymq.observability.metrics import Histogram
from gantrymq.observability.rpc_latency import RPC_LATENCY
from gantrymq.transactions.rules.states import State
from gantrymq.transactions.table.decisions import Cause
from tests.support.brokers import Cluster, cluster, until

PARKED, OPEN = 60, 70
HALF = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01%s\x02"


def asked(c: Cluster) -> int:
    """Requests that the broker has answered."""
    found = c.broker.metrics.read(RPC_LATENCY.name).values()
    return sum(sum(histogram.counts) for histogram in found if isinstance(histogram, Histogram))


async def send_halves(c: Cluster, prefix: str, count: int) -> None:
    for number in range(count):
        await c.sent("Paid" if number % 2 else "Refunds", b"x", HALF % f"{prefix}{number}", sys_flag=4)


def test_the_questions_of_a_list_are_as_many_as_its_rows(tmp_path: Path) -> None:
    async def play() -> None:
        async with asyncio.timeout(90), cluster(tmp_path, with_name_server=True, broker_name="b") as c:
            await send_halves(c, "P", PARKED)
            # As the checks do it with what is too old, which takes days of a real clock.
            for half in list(c.broker.coordinator.table):
                c.broker.coordinator._endings.park(half, lambda *_: None, Cause.TOO_OLD)
            await until(lambda: c.broker.coordinator.counts.parked == PARKED)
            assert c.name_server is not None
            async with Admin(c.name_server.address) as admin:

                async def listed(wanted: Wanted) -> tuple[list[str], int]:
                    before = asked(c)
                    places = await admin.transactions.undecided(wanted=wanted)
                    return [place.transaction.transaction_id for place in places], asked(c) - before

                everything, much = await listed(Wanted(State.PARKED))
                assert len(everything) == PARKED
                few, little = await listed(Wanted(State.PARKED, count=3))
                assert few == everything[:3] and little < much / 4
                one, least = await listed(Wanted(State.PARKED, topic="Refunds", count=1))
                assert one == everything[:1] and least <= little
                await send_halves(c, "O", OPEN)
                opened, _ = await listed(Wanted(State.OPEN, count=5))
                assert opened == [f"O{number}" for number in range(5)]
                both, _ = await listed(Wanted(count=2))
                assert sorted(both) == ["O0", "O1", *sorted(everything[:2])]
                before = asked(c)
                assert await admin.transactions.find("nobody-knows-it") == []
                assert asked(c) - before < 40

    asyncio.run(play())
