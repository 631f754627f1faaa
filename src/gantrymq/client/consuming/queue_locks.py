"""Locks of queues, which brokers grant: in an orderly group only the member with the lock reads a queue.

Source: RebalanceImpl.lock, unlock; docs/protocol.md#locks-of-queues.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import groupby
from typing import Final

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.errors import GantryError
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.locks import LockBatch, LockBatchAnswer
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import encode_request
from gantrymq.remoting.channel import ClientChannel

log = logging.getLogger("gantrymq.client")

TRUSTED_S: Final = 30.0
"""How long a lock is trusted after the broker confirmed it; the broker itself keeps it for 60 s
(rocketmq.client.rebalance.lockMaxLiveTime, rocketmq.broker.rebalance.lockMaxLiveTime)."""
CONFIRM_MS: Final = 500
"""How often it is looked for locks whose connection was lost."""
LOCK_TIMEOUT_MS: Final = 1_000
"""The time-out of lock requests; Apache's value."""


class QueueLocks:
    """The locks of one member of a group."""

    def __init__(self, endpoint: Endpoint, group: str) -> None:
        self._endpoint = endpoint
        self._group = group
        self._until: dict[MessageQueue, float] = {}
        self._asked: set[MessageQueue] = set()
        """Queues whose locks this member may have. A broker keeps a lock for its time even if the connection ends, and
        an answer that came after the time-out may have granted one."""
        self._over = False
        self._confirmed: dict[MessageQueue, tuple[str, ClientChannel]] = {}
        """The address and the connection over which each lock was confirmed."""

    def held(self, queue: MessageQueue) -> bool:
        """Whether this member has the lock of ``queue``, so that no other member reads it."""
        return self._until.get(queue, 0.0) > self._endpoint.clock.monotonic()

    def usable(self, queue: MessageQueue) -> bool:
        """Whether messages of ``queue`` may be handed out: the lock is held, and the connection over which it was
        confirmed is there. Our brokers give the queues of a member without a connection to others, see ``_body``."""
        address, channel = self._confirmed.get(queue, ("", None))
        return channel is not None and self._endpoint.ready(address) is channel and self.held(queue)

    async def confirm(self) -> None:
        """Have locks confirmed whose connection was lost."""
        lost = [queue for queue in list(self._confirmed) if self.held(queue) and not self.usable(queue)]
        if lost:
            await self.take(lost)

    async def take(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Ask for locks, or renew them. Returns the queues whose locks were confirmed. A broker that does not answer
        confirms none, but the locks that it granted before stay trusted for their time."""
        taken: set[MessageQueue] = set()
        for broker_name, group in groupby(sorted(queues, key=_by_broker), key=_by_broker):
            mine = list(group)
            if self._over:
                break
            self._asked.update(mine)
            # The time counts from before the request, because the answer may take long to arrive.
            trusted = self._endpoint.clock.monotonic() + TRUSTED_S
            address = self._endpoint.routes.master(broker_name) or ""
            channel = await self._channel(address)
            confirmed = None if channel is None else await self._lock(broker_name, mine)
            if confirmed is None:
                continue
            for queue in mine:
                if queue in confirmed:
                    self._until[queue] = trusted
                    taken.add(queue)
                    if channel is not None:  # if it was lost meanwhile, the lock is not usable
                        self._confirmed[queue] = (address, channel)
                else:
                    self._forget(queue)
        return taken

    async def _channel(self, address: str) -> ClientChannel | None:
        try:
            return await self._endpoint.channel(address, LOCK_TIMEOUT_MS) if address else None
        except GantryError as error:
            log.info("locks of %s: %s", address, error)
            return None

    def _forget(self, queue: MessageQueue) -> None:
        self._until.pop(queue, None)
        self._confirmed.pop(queue, None)

    async def _lock(self, broker_name: str, queues: list[MessageQueue]) -> set[MessageQueue] | None:
        address = self._endpoint.routes.master(broker_name)
        if address is None:
            return None
        try:
            answer = await self._endpoint.call(
                address, RequestCode.LOCK_BATCH_MQ, None, self._body(queues), timeout_ms=LOCK_TIMEOUT_MS
            )
            if answer.code != ResponseCode.SUCCESS:
                log.warning("%s refused to lock queues (code %d): %s", broker_name, answer.code, answer.remark)
                return None
            return set(LockBatchAnswer.decode(answer.body).lock_ok_mq_set)
        except GantryError as error:
            log.info("locks of %s: %s", broker_name, error)
            return None

    async def give_back(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        """Release the locks of these queues. ``wait``: wait until the broker has confirmed it."""
        for broker_name, group in groupby(sorted(queues, key=_by_broker), key=_by_broker):
            mine = list(group)
            for queue in mine:
                self._forget(queue)
            self._asked.difference_update(mine)
            address = self._endpoint.routes.master(broker_name)
            channel = self._endpoint.ready(address) if address is not None else None
            if channel is None:
                continue  # the locks expire on the broker
            opaque = channel.next_opaque()
            frame = encode_request(RequestCode.UNLOCK_BATCH_MQ, opaque, None, self._body(mine), one_way=not wait)
            if not wait:
                channel.send(frame)
                continue
            try:
                await channel.request(opaque, frame, LOCK_TIMEOUT_MS)
            except GantryError as error:
                log.debug("unlocking at %s: %s", broker_name, error)

    async def close(self) -> None:
        """Release all locks, and ask for no more."""
        self._over = True
        await self.give_back(self._asked, wait=True)

    def _body(self, queues: list[MessageQueue]) -> bytes:
        return LockBatch(
            client_id=self._endpoint.client_id, consumer_group=self._group, mq_set=queues, only_this_broker=False,
            ends_with_connection=True,
        ).encode()  # fmt: skip


def _by_broker(queue: MessageQueue) -> str:
    return queue.broker_name
