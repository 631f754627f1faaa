"""What a controller answers, as Apache's 5.5.0 was seen to. It holds for the one in ``controller.py``, too."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from gantrymq.protocol.bodies.replication import ReplicasOfGroups
from gantrymq.protocol.command import encode_request
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng

NAMES = {"clusterName": "DefaultCluster", "brokerName": "broker-a"}
TIMEOUT_MS = 10_000


class Asking:
    """Of one controller. The connection of each broker is its own, as its end means that the broker is dead."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._clients: dict[int, RemotingClient] = {}

    def client(self, number: int) -> RemotingClient:
        return self._clients.setdefault(number, RemotingClient(TcpNetwork(), SystemClock(), SystemRng()))

    async def ask(self, code: int, number: int = 0, body: Any = None, **fields: Any) -> int:
        texts = {**NAMES, "invokeTime": "1", **{name: str(value) for name, value in fields.items()}}
        data = b"" if body is None else msgspec.json.encode(body)
        answer = await self.client(number).call(self._address, code, body=data, extra=texts, timeout_ms=TIMEOUT_MS)
        return answer.code

    async def state(self) -> tuple[int | None, int, list[int], int]:
        """Primary, epoch, in-sync set and its epoch."""
        found = await self._table()
        members = sorted(one.broker_id for one in found.in_sync_replicas)
        return found.master_broker_id, found.master_epoch, members, found.sync_state_set_epoch

    async def _table(self) -> Any:
        body = msgspec.json.encode(["broker-a"])
        answer = await self.client(0).call(self._address, 1006, body=body, timeout_ms=TIMEOUT_MS)
        return ReplicasOfGroups.decode(answer.body).replicas_info_table["broker-a"]

    async def beat(self, number: int) -> None:
        """Until the controller knows that the broker lives."""
        fields = {
            **NAMES, "brokerId": number, "brokerAddr": f"127.0.0.1:700{number}", "epoch": -1, "maxOffset": 0,
            "confirmOffset": 0, "heartbeatTimeoutMills": 10_000, "electionPriority": 1,
        }  # fmt: skip
        texts = {name: str(value) for name, value in fields.items()}
        channel = await self.client(number).channel(self._address)
        channel.send(encode_request(904, channel.next_opaque(), one_way=True, extra=texts))
        while True:
            found = await self._table()
            if any(
                one.broker_id == number and one.alive for one in found.in_sync_replicas + found.not_in_sync_replicas
            ):
                return
            await asyncio.sleep(0.05)

    async def lose(self, number: int) -> None:
        """The connection of a broker ends."""
        await self._clients.pop(number).close()

    async def close(self) -> None:
        for number in list(self._clients):
            await self.lose(number)


async def play(address: str) -> None:
    """Raises AssertionError at the first answer that Apache's does not give."""
    asking = Asking(address)
    ask = asking.ask
    try:
        assert await ask(1003, brokerId=1, brokerAddress="127.0.0.1:7001") == 2010
        for number in (1, 2):
            assert await ask(1013, appliedBrokerId=number, registerCheckCode=f"c{number}") == 0
            assert await ask(1013, appliedBrokerId=number, registerCheckCode=f"c{number}") == 0
            assert await ask(1013, appliedBrokerId=number, registerCheckCode="other") == 2014
            assert await ask(1003, brokerId=number, brokerAddress=f"127.0.0.1:700{number}") == 0
        assert (await asking.state())[0] is None
        await asking.beat(1)
        assert await ask(1002, brokerId=1, designateElect="false") == 0
        assert await asking.state() == (1, 1, [1], 1)
        assert await ask(1002, brokerId=1, designateElect="false") == 2011
        alter = {"masterBrokerId": 1, "masterEpoch": 1}
        both = {"syncStateSet": [1, 2], "syncStateSetEpoch": 1}
        assert await ask(1001, body=both, **alter) == 2006
        await asking.beat(2)
        assert await ask(1001, body=both, **alter) == 0
        assert await ask(1001, body={**both, "syncStateSetEpoch": 2}, **alter) == 2013
        assert await ask(1001, body={"syncStateSet": [1], "syncStateSetEpoch": 1}, **alter) == 2001
        assert await asking.state() == (1, 1, [1, 2], 2)
        assert await ask(1002, brokerId=2, designateElect="true") == 0
        assert await asking.state() == (2, 2, [2], 3), "behind an election the set is the new primary alone"
        assert await ask(1002, brokerId=1, designateElect="true") == 2012
        assert await asking.state() == (2, 2, [2], 3)
        await asking.lose(2)
        while (await asking.state())[0] is not None:
            await asyncio.sleep(0.05)
        primary, epoch, members, _ = await asking.state()
        assert primary is None and epoch > 2 and members == [2], "nobody else has everything"
        assert await ask(1002, brokerId=1, designateElect="false") == 2012
        await asking.beat(2)
        assert await ask(1002, brokerId=1, designateElect="false") == 0
        primary, again, members, _ = await asking.state()
        assert primary == 2 and again > epoch and members == [2], "whoever asks, a member is elected"
    finally:
        await asking.close()
