"""Pop and acknowledgement by hand: our client has no pop of its own, clients of RocketMQ 5 do."""

from __future__ import annotations

import asyncio

from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.pop import AckMessage
from gantrymq.protocol.signature import Account
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from tests.broker.remoting.test_pop import Got, pop_header, read, real_topic

TIMEOUT_MS = 30_000


class Popping:
    """A member of the group ``poppers``; each call has a connection of its own."""

    GROUP = "poppers"

    def __init__(self, broker: str, name: str, account: Account) -> None:
        """``broker``: its address; ``name``: its name, which is a part of the handles."""
        self._broker, self._name, self._account = broker, name, account

    def take(self, topic: str, acknowledge: bytes | None = None, invisible_ms: int = TIMEOUT_MS) -> list[bytes]:
        """The bodies of what a pop gives; the message with the body ``acknowledge`` is acknowledged."""
        return asyncio.run(self._take(topic, acknowledge, invisible_ms))

    async def _take(self, topic: str, acknowledge: bytes | None, invisible_ms: int) -> list[bytes]:
        client = RemotingClient(TcpNetwork(), SystemClock(), SystemRng(), account=self._account)
        try:
            header = pop_header(topic, consumer_group=self.GROUP, invisible_time=invisible_ms)
            answer = await client.call(self._broker, RequestCode.POP_MESSAGE, header, timeout_ms=TIMEOUT_MS)
            if answer.code not in (ResponseCode.SUCCESS, ResponseCode.POLLING_TIMEOUT):
                raise AssertionError(f"a pop is answered with {answer.code}: {answer.remark}")
            found = read(answer, self._name)
            for got in found:
                if got.body == acknowledge:
                    await self._acknowledge(client, topic, got)
        finally:
            await client.close()
        return [got.body for got in found]

    async def _acknowledge(self, client: RemotingClient, topic: str, got: Got) -> None:
        header = AckMessage(
            consumer_group=self.GROUP, topic=real_topic(got, topic, self.GROUP), queue_id=got.handle.queue_id,
            extra_info=str(got.handle), offset=got.handle.offset,
        )  # fmt: skip
        answer = await client.call(self._broker, RequestCode.ACK_MESSAGE, header, timeout_ms=TIMEOUT_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise AssertionError(f"an acknowledgement is answered with {answer.code}: {answer.remark}")
