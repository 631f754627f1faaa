"""Pulls that found nothing and wait for a message or for their deadline. Source: PullRequestHoldService."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gantrymq.broker.client import Connection
from gantrymq.broker.filtering.selection import Selection
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.pull import PullMessage
from gantrymq.runtime.clock import Clock, Timer

SWEEP_SECONDS: Final = 0.2
"""How often deadlines are looked at; clients wait 10 s longer than they ask us to hold."""
MAX_HELD: Final = 100_000
"""Held pulls of all clients together; beyond it a pull that finds nothing is answered at once."""

Place = tuple[str, int]


@dataclass(slots=True, eq=False)
class HeldPull:
    """A pull request without its answer."""

    session: Connection
    command: Command
    header: PullMessage
    selection: Selection
    topic: str
    queue_id: int
    deadline: float = field(default=0.0)


class HeldPulls:
    """Held pulls by queue.

    ``resume(pull, expired)`` reads again and answers; it returns False when there is still nothing, and the pull is
    held on. It is called once per loop turn and queue, however many messages arrived in it.
    """

    def __init__(self, clock: Clock, resume: Callable[[HeldPull, bool], bool]) -> None:
        self._clock = clock
        self._resume = resume
        self._held: dict[Place, list[HeldPull]] = {}
        self._count = 0
        self._woken: dict[Place, list[HeldPull]] = {}
        self._sweeper: Timer | None = None

    def __len__(self) -> int:
        return self._count

    def hold(self, pull: HeldPull, seconds: float) -> None:
        """Keep ``pull`` until a message comes or ``seconds`` have passed."""
        pull.deadline = self._clock.monotonic() + seconds
        if seconds <= 0 or self._count >= MAX_HELD:
            self._resume(pull, True)
            return
        self._keep(pull)

    def _keep(self, pull: HeldPull) -> None:
        self._held.setdefault((pull.topic, pull.queue_id), []).append(pull)
        self._count += 1
        if self._sweeper is None:
            self._sweeper = self._clock.call_later(SWEEP_SECONDS, self._sweep)

    def arrived(self, topic: str, queue_id: int, queue_offset: int, tags_code: int, properties_text: str) -> None:
        """A message became visible. Called once per message, so it does almost nothing when nobody waits."""
        if not self._held:
            return
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
        if not self._woken:
            self._clock.call_soon(self._wake)
        self._woken.setdefault(place, []).extend(wanting)

    def _wake(self) -> None:
        woken, self._woken = self._woken, {}
        for pulls in woken.values():
            for pull in pulls:
                if not self._resume(pull, False):
                    self._keep(pull)

    def session_closed(self, session: Connection) -> None:
        """A connection ended: nobody waits there any more."""
        self._take(lambda pull: pull.session is session)

    def release(self, wanted: Callable[[HeldPull], bool]) -> None:
        """Answer the pulls that are wanted now, also with nothing."""
        for pull in self._take(wanted):
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
        self._count = 0
