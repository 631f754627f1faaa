"""Messages that the door keeps invisible while their consumer works on them (``auto_renew``).

A renewal has a new receipt handle, while the client keeps its first one: here is which handle counts now.
Source: DefaultReceiptHandleManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from gantrymq.broker.grpc.clients import GrpcClient
from gantrymq.broker.pop.acks import PopAcks
from gantrymq.broker.pop.values import PopDelivery, Renewed
from gantrymq.broker.refusal import Refused
from gantrymq.message.receipt_handle import ReceiptHandle
from gantrymq.runtime.clock import Clock

log = logging.getLogger("gantrymq.grpc")

LOOK_SECONDS: Final = 5.0
BEFORE_END_MS: Final = 20_000
"""A message that would become visible this soon is renewed."""
RENEWED_FOR_MS: Final = 60_000
LONGEST_MS: Final = 3 * 3600 * 1000
"""A consumer that works on a message for longer has lost it."""
GONE_MS: Final = 1_000
"""When the messages of a client that is gone become visible."""


@dataclass(frozen=True, slots=True)
class _Held:
    client: GrpcClient
    group: str
    topic: str
    first: ReceiptHandle
    now: ReceiptHandle


Key = tuple[str, str, int, int, int]
"""Group, topic, queue, offset, and the time of the pop as the client knows it."""


class HeldDeliveries:
    """Renews, and knows which receipt handle counts."""

    def __init__(self, acks: PopAcks, clock: Clock) -> None:
        self._acks = acks
        self._clock = clock
        self._held: dict[Key, _Held] = {}
        self._renewing: set[Key] = set()
        """Those whose renewal is not durable yet: a second one would name a handle that has ended."""

    def hold(self, client: GrpcClient, delivery: PopDelivery, handle: ReceiptHandle) -> None:
        """From now on a message is renewed."""
        group, topic = delivery.group, delivery.topic
        self._held[_key(group, topic, handle)] = _Held(client, group, topic, handle, handle)

    def current(self, group: str, topic: str, handle: ReceiptHandle) -> ReceiptHandle:
        """The handle that counts for the delivery that a client names."""
        held = self._held.get(_key(group, topic, handle))
        return handle if held is None else held.now

    def release(self, group: str, topic: str, handle: ReceiptHandle) -> None:
        """The client has ended the delivery, or named another time for it."""
        self._held.pop(_key(group, topic, handle), None)

    def renew_due(self) -> None:
        """Renew what would become visible soon, of clients that live; let the others' come soon."""
        now = self._clock.wall_ms()
        for key, held in list(self._held.items()):
            if not held.client.alive:
                del self._held[key]
                self._change(held, GONE_MS, _ignored)
            elif now - held.first.pop_time > LONGEST_MS or held.now.visible_at <= now:
                del self._held[key]
            elif held.now.visible_at - now < BEFORE_END_MS and key not in self._renewing:
                self._renewing.add(key)
                self._change(held, RENEWED_FOR_MS, partial(self._renewed, key, held))

    def _renewed(self, key: Key, held: _Held, outcome: Renewed | Refused) -> None:
        self._renewing.discard(key)
        if key not in self._held:
            return
        if isinstance(outcome, Refused):
            log.info("a message of group %s could not be kept invisible: %s", held.group, outcome)
            del self._held[key]
            return
        now = replace(
            held.now, pop_time=outcome.pop_time, invisible_time=outcome.invisible_time,
            revive_queue=outcome.revive_queue, start_offset=_start_of(held.now),
        )  # fmt: skip
        self._held[key] = replace(held, now=now)

    def _change(self, held: _Held, ms: int, done: Callable[[Renewed | Refused], None]) -> None:
        handle = held.now
        delivery = PopDelivery(held.group, held.topic, handle.queue_id, handle.offset, str(handle))
        try:
            at_once = self._acks.change_invisible_time(delivery, ms, suspend=False, done=done)
        except Refused as refused:
            done(refused)
            return
        if at_once is not None:
            done(at_once)


def _start_of(handle: ReceiptHandle) -> int:
    """Of a renewed delivery: it is alone in its check point; an orderly one stays in its batch."""
    return handle.start_offset if handle.orderly else handle.offset


def _key(group: str, topic: str, handle: ReceiptHandle) -> Key:
    return group, topic, handle.queue_id, handle.offset, handle.pop_time


def _ignored(outcome: Renewed | Refused) -> None:
    """It becomes visible by itself."""
