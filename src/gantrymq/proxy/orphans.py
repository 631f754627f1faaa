"""Deliveries that a proxy renewed which is gone (``auto_renew``): another one goes on, if their client has come to it.

The broker has a note of each such delivery: its client, and the handle that counts. A proxy that lives renews 20 s
before the end (``BEFORE_END_MS``). So what ends in less than 14 s, and is not renewed, has nobody who does it any more;
the rest of the time is for a proxy that is only slow. Two that take over the same delivery do no harm: the second
renewal names a handle that is over, and is refused.

A client is known where it was heard. All official ones speak again within 30 s, half of the time between two renewals.
Apache's brokers have no such notes.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gantrymq.broker.grpc import deliveries
from gantrymq.broker.grpc.deliveries import HeldDeliveries
from gantrymq.broker.pop.holds import HeldDelivery, Hold
from gantrymq.broker.refusal import Refused
from gantrymq.errors import RemoteProtocolError
from gantrymq.message.receipt_handle import parse
from gantrymq.protocol.bodies.pop import HeldList
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.pop import ListHeld
from gantrymq.proxy.cluster import Cluster

log = logging.getLogger("gantrymq.proxy")

SLACK_MS: Final = 6_000
"""So much later than a proxy that lives would have renewed a delivery, another one does."""
LOOK_SECONDS: Final = 4.0


class Orphans:
    """Looks for them at every broker."""

    def __init__(self, cluster: Cluster, held: HeldDeliveries) -> None:
        self._cluster = cluster
        self._held = held

    async def keep(self) -> None:
        """Look again and again."""
        while True:
            await self._cluster.clock.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Take over what was left, of all brokers."""
        await asyncio.gather(*(self._look_at(address) for address in self._cluster.masters()))

    async def _look_at(self, address: str) -> None:
        if self._cluster.is_apache(self._cluster.name_at(address) or ""):
            return
        try:
            answer = await self._cluster.ask_at(
                address, RequestCode.LIST_HELD, ListHeld(within_ms=deliveries.BEFORE_END_MS - SLACK_MS),
                what="deliveries that nobody renews",
                accept=(ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
            )  # fmt: skip
            if answer.code != ResponseCode.SUCCESS:
                return
            for one in HeldList.decode(answer.body).held:
                hold = Hold.at_a_proxy(one.holder, one.first_pop)
                if self._held.adopt(HeldDelivery(hold, one.group, one.topic, parse(one.handle))):
                    log.info("a message of group %s is renewed from now on: who did it is gone", one.group)
        except (Refused, RemoteProtocolError) as problem:
            log.debug("the broker at %s does not say which deliveries nobody renews: %s", address, problem)
