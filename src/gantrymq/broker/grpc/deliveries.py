"""Messages that the door keeps invisible while their consumer works on them (``auto_renew``).

A renewal has a new receipt handle, while the client keeps its first one: here is which handle counts now. Whatever is
here is in the broker's store, too (``pop.holds``), and a door that starts anew takes it from there.
Source: DefaultReceiptHandleManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from gantrymq.broker.grpc.clients import GrpcClient
from gantrymq.broker.grpc.messaging import Deliveries
from gantrymq.broker.pop.holds import NOBODY, HeldDelivery, Hold
from gantrymq.broker.pop.values import PopDelivery, Renewed
from gantrymq.broker.refusal import Refused
from gantrymq.message.receipt_handle import ReceiptHandle
from gantrymq.runtime.clock import Clock

log = logging.getLogger("gantrymq.grpc")

LOOK_SECONDS: Final = 2.0
NOTED_AFTER_MS: Final = 2_000
"""A message that is in hand for so long is renewed for the first time, so that the broker has a note about it: a door
that starts anew goes on with it. Most messages are acknowledged sooner, and cost no renewal."""
BEFORE_END_MS: Final = 20_000
"""A message that would become visible this soon is renewed."""
RENEWED_FOR_MS: Final = 60_000
LONGEST_MS: Final = 3 * 3600 * 1000
"""A consumer that works on a message for longer has lost it."""
GONE_MS: Final = 1_000
"""When the messages of a client that is gone become visible."""
GRACE_SECONDS: Final = 60.0
"""How long a client may be silent behind a start of the door before it counts as gone: twice the longest pause between
the heartbeats of the official clients (Rust, 30 s)."""


@dataclass(frozen=True, slots=True)
class _Held:
    client: GrpcClient | None
    """None: it was not heard yet since the start."""
    hold: Hold
    group: str
    topic: str
    first: ReceiptHandle
    now: ReceiptHandle
    noted: bool = False
    """Whether the broker knows for whom it is renewed."""


Key = tuple[str, str, int, int, int]
"""Group, topic, queue, offset, and the time of the pop as the client knows it."""


class HeldDeliveries:
    """Renews, and knows which receipt handle counts."""

    def __init__(
        self, acks: Deliveries, clock: Clock, named: Callable[[str], GrpcClient | None],
        notes: Callable[[str], bool] = lambda broker_name: True,
    ) -> None:  # fmt: skip
        """``named``: finds a client by its name, if it was heard since the start. ``notes``: whether the broker of that
        name keeps notes of what is renewed."""
        self._notes = notes
        self._acks = acks
        self._clock = clock
        self._named = named
        self._held: dict[Key, _Held] = {}
        self._renewing: dict[Key, list[asyncio.Future[None]]] = {}
        """Those whose renewal is not durable yet, and who waits for that: until then nobody knows which handle counts.
        """
        self._grace_until = clock.monotonic() + GRACE_SECONDS

    def hold(self, client: GrpcClient, delivery: PopDelivery, handle: ReceiptHandle) -> None:
        """From now on a message is renewed."""
        group, topic, hold = delivery.group, delivery.topic, Hold(client.name, handle.pop_time)
        self._held[_key(group, topic, handle)] = _Held(client, hold, group, topic, handle, handle)

    def resume(self, deliveries: Iterable[HeldDelivery]) -> None:
        """Go on where the door before this one ended. What proxies have is theirs."""
        for one in deliveries:
            if one.hold.elsewhere:
                continue
            held = _Held(None, one.hold, one.group, one.topic, one.first, one.handle, noted=True)
            self._held[_key(one.group, one.topic, one.first)] = held
        self._look(resuming=True)

    def adopt(self, one: HeldDelivery) -> bool:
        """Go on with what a door prolonged that is gone, if its client has come here. False: it has not, or this door
        has the delivery."""
        client, key = self._named(one.hold.client), _key(one.group, one.topic, one.first)
        if client is None or not client.alive or key in self._held:
            return False
        hold = Hold(client.name, one.hold.first_pop)
        self._held[key] = _Held(client, hold, one.group, one.topic, one.first, one.handle, noted=True)
        return True

    def current(self, group: str, topic: str, handle: ReceiptHandle) -> ReceiptHandle:
        """The handle that counts for the delivery that a client names."""
        held = self._held.get(_key(group, topic, handle))
        return handle if held is None else held.now

    async def settled(self, group: str, topic: str, handle: ReceiptHandle) -> None:
        """Return when no renewal of a delivery is under way."""
        waiting = self._renewing.get(_key(group, topic, handle))
        if waiting is not None:
            renewed = asyncio.get_running_loop().create_future()
            waiting.append(renewed)
            await renewed

    def release(self, group: str, topic: str, handle: ReceiptHandle) -> None:
        """The client has ended the delivery, or named another time for it."""
        self._held.pop(_key(group, topic, handle), None)

    def renew_due(self) -> None:
        """Renew what would become visible soon, of clients that live; let the others' come soon."""
        self._look(resuming=False)

    def _look(self, *, resuming: bool) -> None:
        """``resuming``: the last renewals were those of the door before this one, and may be over."""
        now = self._clock.wall_ms()
        for key, held in list(self._held.items()):
            if held.client is None:
                held = self._held[key] = replace(held, client=self._named(held.hold.holder))
            if self._is_gone(held.client):
                del self._held[key]
                self._change(held, GONE_MS, _ignored, NOBODY)
            elif now - held.first.pop_time > LONGEST_MS or (held.now.visible_at <= now and not resuming):
                del self._held[key]
            elif self._is_due(held, now) and key not in self._renewing:
                self._renewing[key] = []
                self._change(held, RENEWED_FOR_MS, partial(self._renewed, key, held), held.hold)

    def _is_due(self, held: _Held, now: int) -> bool:
        if held.now.visible_at - now < BEFORE_END_MS:
            return True
        if held.noted or now - held.first.pop_time < NOTED_AFTER_MS:
            return False
        return self._notes(held.first.broker_name)

    def _is_gone(self, client: GrpcClient | None) -> bool:
        return self._clock.monotonic() > self._grace_until if client is None else not client.alive

    def _renewed(self, key: Key, held: _Held, outcome: Renewed | Refused) -> None:
        for waiting in self._renewing.pop(key):
            if not waiting.done():
                waiting.set_result(None)
        known = self._held.get(key)
        if known is None:
            return
        if isinstance(outcome, Refused):
            log.info("a message of group %s could not be kept invisible: %s", held.group, outcome)
            del self._held[key]
            return
        now = replace(
            held.now, pop_time=outcome.pop_time, invisible_time=outcome.invisible_time,
            revive_queue=outcome.revive_queue, start_offset=_start_of(held.now),
        )  # fmt: skip
        self._held[key] = replace(known, now=now, noted=True)

    def _change(self, held: _Held, ms: int, done: Callable[[Renewed | Refused], None], hold: Hold) -> None:
        handle = held.now
        delivery = PopDelivery(held.group, held.topic, handle.queue_id, handle.offset, str(handle))
        try:
            at_once = self._acks.change_invisible_time(delivery, ms, suspend=False, done=done, hold=hold)
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
