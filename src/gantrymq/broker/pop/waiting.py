"""Pops and notifications that found no message and wait. Source: PopLongPollingService.

They wait by topic and group. A message wakes, for each group, the request that has waited longest and can use it; so
does a message of the group's retry topic. Orderly pops also wait for the time at which a blocked queue opens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gantrymq.broker.client import Client
from gantrymq.broker.filtering.selection import Selection
from gantrymq.message.system_topics import pop_retry_topic
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.store.dispatch import Pending

SWEEP_SECONDS: Final = 0.1
"""How often deadlines are looked at."""

Reader: TypeAlias = tuple[str, str]
"""Topic and group."""


@dataclass(slots=True, eq=False)
class Waiter:
    """A request without its answer. ``resume(expired)`` tries again and says whether it was answered."""

    client: Client
    topic: str
    group: str
    queue_id: int
    selection: Selection
    deadline: float
    """Seconds by the monotonic clock."""
    resume: Callable[[bool], bool]
    wake_at: float | None = field(default=None)
    """When a queue opens; set by ``resume``."""


class Waiting:
    """All of them, the longest waiting of a group first."""

    def __init__(self, clock: Clock, max_of_queue: int, max_of_all: int) -> None:
        self._clock = clock
        self._max_of_queue = max_of_queue
        self._max_of_all = max_of_all
        self._waiters: dict[Reader, list[Waiter]] = {}
        self._groups: dict[str, dict[str, None]] = {}
        """Topic to the groups that wait for it (an ordered set)."""
        self._retries: dict[str, Reader] = {}
        """Retry topic to whom it belongs."""
        self._woken: list[Waiter] = []
        self._count = 0
        self._sweeper: Timer | None = None

    def __len__(self) -> int:
        return self._count

    def count(self, topic: str, group: str, queue_id: int) -> int:
        """How many wait for exactly this queue (-1: any)."""
        return sum(1 for waiter in self._waiters.get((topic, group), ()) if waiter.queue_id == queue_id)

    def is_full(self, topic: str, group: str, queue_id: int) -> bool:
        """Whether one more would be too many."""
        return self._count >= self._max_of_all or self.count(topic, group, queue_id) >= self._max_of_queue

    def hold(self, waiter: Waiter) -> None:
        """Keep a request until something comes, or its deadline."""
        reader = (waiter.topic, waiter.group)
        waiters = self._waiters.get(reader)
        if waiters is None:
            waiters = self._waiters[reader] = []
            self._groups.setdefault(waiter.topic, {})[waiter.group] = None
            for v2 in (False, True):
                self._retries[pop_retry_topic(waiter.topic, waiter.group, v2=v2)] = reader
        waiters.append(waiter)
        self._count += 1
        if self._sweeper is None:
            self._sweeper = self._clock.call_later(SWEEP_SECONDS, self._sweep)

    def arrived_run(self, topic: str, queue_id: int, records: Sequence[Pending]) -> None:
        """Messages became visible. Called all the time, so it does almost nothing when nobody waits."""
        if self._count:
            for record in records:
                self.arrived(topic, queue_id, record[2], record[5], record[6])

    def arrived(self, topic: str, queue_id: int, queue_offset: int, tags_code: int, text: str) -> None:
        """A message became visible."""
        if not self._count:
            return
        for group in list(self._groups.get(topic, ())):
            self._wake_first(
                (topic, group),
                lambda waiter: waiter.queue_id in (-1, queue_id) and waiter.selection.takes(tags_code, text),
            )
        reader = self._retries.get(topic)
        if reader is not None:
            self._wake_first(reader, lambda waiter: waiter.selection.takes(tags_code, text))

    def wake(self, topic: str, group: str) -> None:
        """There may be something for the group: let the one that waits longest look."""
        self._wake_first((topic, group), lambda waiter: True)

    def _wake_first(self, reader: Reader, usable: Callable[[Waiter], bool]) -> None:
        for waiter in self._waiters.get(reader, ()):
            # One that is gone, or reads nothing, must not use up what wakes the others.
            if waiter.client.alive and waiter.client.writable and usable(waiter):
                self._take(waiter)
                if not self._woken:
                    self._clock.call_soon(self._run)
                self._woken.append(waiter)
                return

    def _take(self, waiter: Waiter) -> None:
        reader = (waiter.topic, waiter.group)
        waiters = self._waiters[reader]
        waiters.remove(waiter)
        self._count -= 1
        if waiters:
            return
        del self._waiters[reader]
        del self._groups[waiter.topic][waiter.group]
        if not self._groups[waiter.topic]:
            del self._groups[waiter.topic]
        for v2 in (False, True):
            del self._retries[pop_retry_topic(waiter.topic, waiter.group, v2=v2)]

    def _run(self) -> None:
        woken, self._woken = self._woken, []
        for waiter in woken:
            if waiter.client.alive:
                self._resume(waiter, expired=False)
            else:
                self.wake(waiter.topic, waiter.group)

    def _resume(self, waiter: Waiter, *, expired: bool) -> None:
        if waiter.client.alive and not waiter.resume(expired):
            self.hold(waiter)

    def _sweep(self) -> None:
        self._sweeper = None
        now = self._clock.monotonic()
        for waiters in list(self._waiters.values()):
            for waiter in list(waiters):
                expired = waiter.deadline <= now
                if expired or (waiter.wake_at is not None and waiter.wake_at <= now):
                    self._take(waiter)
                    waiter.wake_at = None
                    self._resume(waiter, expired=expired)
        if self._count and self._sweeper is None:
            self._sweeper = self._clock.call_later(SWEEP_SECONDS, self._sweep)

    def client_gone(self, client: Client) -> None:
        """A connection ended: its requests are forgotten."""
        for waiters in list(self._waiters.values()):
            for waiter in [waiter for waiter in waiters if waiter.client is client]:
                self._take(waiter)

    def release_all(self) -> None:
        """Answer everybody now, also when there is nothing."""
        for waiters in list(self._waiters.values()):
            for waiter in list(waiters):
                self._take(waiter)
                self._resume(waiter, expired=True)

    def close(self) -> None:
        """Forget everybody; the connections are about to be closed."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._waiters.clear()
        self._groups.clear()
        self._retries.clear()
        self._woken.clear()
        self._count = 0
