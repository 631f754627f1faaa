"""Pulls that found no message and wait for one, or for their deadline. Source: PullRequestHoldService."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gantrymq.broker.client import Client
from gantrymq.broker.delivery.pull_values import PullDone, PullRequest
from gantrymq.broker.filtering.selection import Selection
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.store.dispatch import Pending

SWEEP_SECONDS: Final = 0.2
"""How often deadlines are looked at; clients wait 10 s longer than they ask us to hold."""
MAX_HELD: Final = 100_000
"""Held pulls of all clients together; beyond it a pull that finds nothing is answered at once."""

Place: TypeAlias = tuple[str, int]
"""Topic and queue id."""


@dataclass(slots=True, eq=False)
class HeldPull:
    """A pull without its result."""

    client: Client
    request: PullRequest
    selection: Selection
    done: PullDone
    deadline: float = field(default=0.0)
    """Seconds by the monotonic clock."""


class HeldPulls:
    """Held pulls by queue.

    ``resume(pull, expired)`` reads again and gives the pull its result; it returns False when there is still nothing,
    and the pull is held on. It is called once per loop turn and queue, however many messages arrived in it.

    ``gather_seconds``: a queue whose pulls were resumed less than this ago gathers messages until it has passed. The
    first message of a queue is answered at once; under load an answer has several messages, so that broker and consumer
    need less time for each.
    """

    def __init__(
        self, clock: Clock, resume: Callable[[HeldPull, bool], bool], gather_seconds: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._clock = clock
        self._resume = resume
        self._gather_seconds = gather_seconds
        self._held: dict[Place, list[HeldPull]] = {}
        self._count = 0
        self._woken: dict[Place, list[HeldPull]] = {}
        self._gathering: dict[Place, list[HeldPull]] = {}
        """Woken a moment after other pulls of their queues."""
        self._resumed_at: dict[Place, float] = {}
        """Monotonic seconds; of the queues whose pulls were resumed since the last sweep but one."""
        self._sweeper: Timer | None = None

    def __len__(self) -> int:
        return self._count

    def hold(self, pull: HeldPull, seconds: float) -> bool:
        """Keep ``pull`` until a message comes or ``seconds`` have passed; False when it is not kept at all."""
        if seconds <= 0 or self._count >= MAX_HELD:
            return False
        pull.deadline = self._clock.monotonic() + seconds
        self._keep(pull)
        return True

    def _keep(self, pull: HeldPull) -> None:
        request = pull.request
        self._held.setdefault((request.topic, request.queue_id), []).append(pull)
        self._count += 1
        if self._sweeper is None:
            self._sweeper = self._clock.call_later(SWEEP_SECONDS, self._sweep)

    def arrived_run(self, topic: str, queue_id: int, records: Sequence[Pending]) -> None:
        """Messages became visible. Called all the time, so it does almost nothing when nobody waits."""
        if self._held and (topic, queue_id) in self._held:
            for record in records:
                self.arrived(topic, queue_id, record[2], record[5], record[6])

    def arrived(self, topic: str, queue_id: int, queue_offset: int, tags_code: int, properties_text: str) -> None:
        """A message became visible."""
        place = (topic, queue_id)
        held = self._held.get(place)
        if held is None:
            return
        wanting = [pull for pull in held if pull.selection.takes(tags_code, properties_text)]
        if not wanting:
            return
        if len(wanting) == len(held):
            del self._held[place]
        else:
            self._held[place] = [pull for pull in held if pull not in wanting]
        self._count -= len(wanting)
        resumed_at = self._resumed_at.get(place)
        if resumed_at is not None and self._clock.monotonic() < resumed_at + self._gather_seconds():
            if not self._gathering:
                self._clock.call_later(self._gather_seconds(), self._wake_gathered)
            self._gathering.setdefault(place, []).extend(wanting)
            return
        if not self._woken:
            self._clock.call_soon(self._wake)
        self._woken.setdefault(place, []).extend(wanting)

    def _wake(self) -> None:
        woken, self._woken = self._woken, {}
        self._resume_all(woken)

    def _wake_gathered(self) -> None:
        gathered, self._gathering = self._gathering, {}
        self._resume_all(gathered)

    def _resume_all(self, woken: dict[Place, list[HeldPull]]) -> None:
        now = self._clock.monotonic()
        for place, pulls in woken.items():
            self._resumed_at[place] = now
            for pull in pulls:
                if not self._resume(pull, False):
                    self._keep(pull)

    def client_gone(self, client: Client) -> None:
        """A connection ended: its pulls are forgotten."""
        self._take(lambda pull: pull.client is client)

    def release(self, group: str, topic: str) -> None:
        """Give the pulls of a group on a topic their results now, also when there is nothing."""
        for pull in self._take(lambda pull: pull.request.topic == topic and pull.request.group == group):
            self._resume(pull, True)

    def release_all(self) -> None:
        """Give all pulls their results now."""
        for pull in self._take(lambda pull: True):
            self._resume(pull, True)

    def _take(self, wanted: Callable[[HeldPull], bool]) -> list[HeldPull]:
        """Remove the held pulls that are wanted, and return them."""
        taken: list[HeldPull] = []
        for place, pulls in list(self._held.items()):
            out = [pull for pull in pulls if wanted(pull)]
            if not out:
                continue
            taken += out
            kept = [pull for pull in pulls if not wanted(pull)]
            if kept:
                self._held[place] = kept
            else:
                del self._held[place]
        self._count -= len(taken)
        return taken

    def _sweep(self) -> None:
        self._sweeper = None
        now = self._clock.monotonic()
        self._resumed_at = {place: at for place, at in self._resumed_at.items() if now - at < SWEEP_SECONDS}
        for pull in self._take(lambda pull: pull.deadline <= now):
            self._resume(pull, True)
        if self._held:
            self._sweeper = self._clock.call_later(SWEEP_SECONDS, self._sweep)

    def close(self) -> None:
        """Forget everything that is held; the connections are about to be closed."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._held.clear()
        self._woken.clear()
        self._gathering.clear()
        self._resumed_at.clear()
        self._count = 0
