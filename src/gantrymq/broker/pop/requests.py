"""POP, peek, notification and polling info: checks, selection, limits and waiting.

Source: PopMessageProcessor, PeekMessageProcessor, NotificationProcessor, PollingInfoProcessor; docs/protocol.md#pop.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from gantrymq.broker.client import Client
from gantrymq.broker.filtering.selection import EVERYTHING
from gantrymq.broker.filtering.subscriptions import selection_of
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.message_rights import MessageRights
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.pop.consumption import PopConsumption
from gantrymq.broker.pop.queues import PopChecks
from gantrymq.broker.pop.values import (
    MAX_COUNT,
    MAX_INVISIBLE_MS,
    NotificationDone,
    NotificationRequest,
    Notified,
    PopDone,
    Popped,
    PopRequest,
    PopResult,
    PopStatus,
    Wanted,
)
from gantrymq.broker.pop.waiting import Waiter, Waiting
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.errors import StoreError
from gantrymq.runtime.clock import Clock

TOO_LATE_MS: Final = 500
"""A request whose waiting time ended longer ago than this is not executed: its client has gone on, and what it popped
would be invisible for nothing."""
EARLY_MS: Final = 50
"""How much before the end of its waiting time a request is answered."""
MAX_WAIT_MS: Final = 60_000
"""How long a request is held at most, whatever the client asks for."""


class PopRequests:
    """Requests of all clients. Those that are held are in ``waiting``."""

    def __init__(
        self, config: LiveConfig, checks: PopChecks, consumption: PopConsumption, waiting: Waiting, clock: Clock,
        counters: MessageCounters, rights: MessageRights | None,
    ) -> None:  # fmt: skip
        """``rights``: judges what is read from topics of the system; None: the broker has no users."""
        self._config = config
        self._checks = checks
        self._consumption = consumption
        self._clock = clock
        self._counters = counters
        self._rights = rights
        self.waiting: Final = waiting

    # POP.

    def pop(self, client: Client, request: PopRequest, done: PopDone) -> PopResult | None:
        """The result when there is nothing and the request may not wait; None when ``done`` gets the outcome, at once
        or later. Raises Refused.
        """
        if not client.writable:
            raise Refused(Refusal.ANSWERS_UNREAD, "read the answers to earlier pops first, then ask again")
        wait_ms = self._wait_ms(request.born_ms, request.poll_ms)
        self._check(request, wait_ms)
        wanted = Wanted(
            request.group, request.topic, request.queue_id, max(1, request.count), request.invisible_ms,
            request.from_start, selection_of(self._config, request.expression, request.expression_type),
            request.order, request.attempt_id,
        )  # fmt: skip
        popped = self._pop(client, wanted, done)
        if popped.batches:
            return None
        if wait_ms <= EARLY_MS:
            return PopResult(PopStatus.POLLING_NOT_FOUND, popped)
        if self.waiting.is_full(wanted.topic, wanted.group, wanted.queue_id):
            return PopResult(PopStatus.POLLING_FULL, popped)
        self._hold(client, wanted, done, popped, wait_ms)
        return None

    def _check(self, request: PopRequest, wait_ms: int) -> None:
        if wait_ms < -TOO_LATE_MS:
            raise Refused(
                Refusal.WAIT_OVER, f"the broker[{self._config.network.broker_ip1}] pop message is timeout too much"
            )
        if request.count > MAX_COUNT:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"the broker[{self._config.network.broker_ip1}] pop message's num is greater than {MAX_COUNT}",
            )
        if not 0 <= request.invisible_ms <= MAX_INVISIBLE_MS:
            raise Refused(
                Refusal.PARAMETER_INVALID, f"invisibleTime is {request.invisible_ms}; 0 to {MAX_INVISIBLE_MS} ms"
            )
        self._may_read(request.topic, request.queue_id, request.group)

    def _wait_ms(self, born_ms: int, poll_ms: int) -> int:
        """How long a request may still be held; negative when its time is over."""
        waited = self._clock.wall_ms() - born_ms if born_ms > 0 else 0
        return min(poll_ms, MAX_WAIT_MS, poll_ms - waited)

    def _pop(self, client: Client, wanted: Wanted, done: PopDone) -> Popped:
        accept = None if self._rights is None else partial(self._judge, client, wanted.group)
        popped = self._consumption.pop(wanted, partial(self._give, wanted.group, done), accept)
        if popped.rest > 0 and (popped.batches or popped.passed_over):
            self.waiting.wake(wanted.topic, wanted.group)
        return popped

    def _judge(self, client: Client, group: str, popped: Popped) -> None:
        """Raises Refused when the client may not be given one of the messages."""
        if self._rights is not None:
            for batch in popped.batches:
                self._rights.demand_all(client, batch.topic, batch.data, group)

    def _may_read(self, topic: str, queue_id: int, group: str) -> None:
        """Raises Refused."""
        self._checks.may_read(topic, queue_id, group)
        if self._rights is not None:
            self._rights.demand_poppable(topic)

    def _give(self, group: str, done: PopDone, popped: Popped, error: StoreError | None) -> None:
        if error is not None:
            done(Refused(Refusal.FAILED, str(error)))
            return
        for batch in popped.batches:
            self._counters.got(batch.topic, group, len(batch.offsets), len(batch.data))
        done(PopResult(PopStatus.FOUND, popped))

    def _hold(self, client: Client, wanted: Wanted, done: PopDone, popped: Popped, wait_ms: int) -> None:
        def resume(expired: bool) -> bool:
            if not client.writable:
                return False
            try:
                found = self._pop(client, wanted, done)
            except Refused as refusal:
                done(refusal)
                return True
            if found.batches:
                return True
            if expired:
                done(PopResult(PopStatus.POLLING_NOT_FOUND, found))
                return True
            waiter.wake_at = self._opens_at(found)
            return False

        waiter = Waiter(
            client, wanted.topic, wanted.group, wanted.queue_id, wanted.selection, self._deadline(wait_ms), resume,
            self._opens_at(popped),
        )  # fmt: skip
        self.waiting.hold(waiter)

    def _deadline(self, wait_ms: int) -> float:
        return self._clock.monotonic() + (wait_ms - EARLY_MS) / 1000

    def _opens_at(self, popped: Popped) -> float | None:
        if popped.passed_over:
            return self._clock.monotonic()
        if popped.blocked_until is None:
            return None
        return self._clock.monotonic() + (popped.blocked_until - popped.now_ms) / 1000

    # Looking without taking.

    def peek(self, client: Client, group: str, topic: str, queue_id: int, count: int) -> Popped:
        """What a pop would find. Raises Refused."""
        self._may_read(topic, queue_id, group)
        popped = self._consumption.peek(Wanted(group, topic, queue_id, max(1, min(count, MAX_COUNT)), 0))
        self._judge(client, group, popped)
        return popped

    def notification(self, client: Client, request: NotificationRequest, done: NotificationDone) -> Notified | None:
        """Whether there is something to pop; None when the request is held: then ``done`` gets the answer later.
        Raises Refused.
        """
        self._may_read(request.topic, request.queue_id, request.group)
        wanted = Wanted(
            request.group, request.topic, request.queue_id, 1, 0, order=request.order, attempt_id=request.attempt_id
        )  # fmt: skip
        found = self._consumption.has_message(wanted)
        wait_ms = self._wait_ms(request.born_ms, request.poll_ms)
        if found or wait_ms <= EARLY_MS:
            return Notified(found)
        if self.waiting.is_full(wanted.topic, wanted.group, wanted.queue_id):
            return Notified(False, polling_full=True)

        def resume(expired: bool) -> bool:
            has_message = self._consumption.has_message(wanted)
            if has_message or expired:
                done(Notified(has_message))
            if has_message:
                # The message that woke this one is still there for a pop that waits behind it.
                self.waiting.wake(wanted.topic, wanted.group)
            return has_message or expired

        deadline = self._deadline(wait_ms)
        self.waiting.hold(Waiter(client, wanted.topic, wanted.group, wanted.queue_id, EVERYTHING, deadline, resume))
        return None

    def polling_count(self, group: str, topic: str, queue_id: int) -> int:
        """How many requests of the group wait for exactly this queue (-1: any). Raises Refused."""
        self._checks.may_read(topic, queue_id, group)
        return self.waiting.count(topic, group, queue_id)
