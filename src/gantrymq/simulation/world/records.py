"""The record of a group, on a simulated machine that is reached over the simulated network."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from gantrymq.broker.replication.election.record import Record
from gantrymq.broker.replication.election.record_store import NEVER, Held
from gantrymq.errors import TimedOut, Unreachable
from gantrymq.simulation.world.network import SimNetwork

ETCD: Final = "10.0.4.1"
TIMEOUT_S: Final = 0.5


class SimEtcd:
    """Keeps one record. It never forgets, and it may be away."""

    def __init__(self, network: SimNetwork, rng: random.Random) -> None:
        self.network = network
        self.rng = rng
        self.held = Held(None, NEVER)
        self.away = False

    def records(self, address: str) -> SimRecords:
        """As the machine with this address reaches it."""
        return SimRecords(self, address)


class SimRecords:
    """A ``RecordStore``."""

    def __init__(self, etcd: SimEtcd, address: str) -> None:
        self._etcd = etcd
        self._address = address

    async def read(self) -> Held:
        await self._trip(self._address, ETCD)
        held = self._etcd.held
        await self._trip(ETCD, self._address)
        return held

    async def replace(self, held: Held, record: Record) -> Held | None:
        etcd = self._etcd
        await self._trip(self._address, ETCD)
        written = None
        if etcd.held.revision == held.revision:
            etcd.held = written = Held(record, held.revision + 1)
        await self._trip(ETCD, self._address)
        return written

    async def _trip(self, one: str, other: str) -> None:
        """Of a question or an answer. Raises TimedOut when it gets lost: whether it was the question or the answer is
        not known to whoever asked."""
        etcd, network = self._etcd, self._etcd.network
        await asyncio.sleep(network.faults.latency_s * etcd.rng.uniform(0.5, 1.5))
        if etcd.away:
            raise Unreachable(ETCD, "Connection refused")
        lost = etcd.rng.random() < network.faults.lost + network.faults.reset
        if lost or not network.passes(one, other):
            network.injected["word of etcd lost"] += 1
            await asyncio.sleep(TIMEOUT_S)
            raise TimedOut(f"etcd at {ETCD} answers", int(TIMEOUT_S * 1000))
