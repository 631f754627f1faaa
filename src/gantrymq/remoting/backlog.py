"""Requests of one connection that came and are not executed yet, and when nothing more is read from it.

Nothing is read while one of these holds: the peer does not read its answers (``held``, until it does), the requests of
all clients were too many for one turn of the loop (``deferred``), or the client has sent too many in a second
(``resting``). So a backlog cannot grow by more than what one read brought.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from gantrymq.protocol.command import Command
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.network import Link


class Backlog:
    """See above. It decides nothing: its session says what holds."""

    __slots__ = ("_link", "_resting", "commands", "deferred", "held")

    def __init__(self) -> None:
        self._link: Link | None = None
        self._resting: Timer | None = None
        self.commands: Iterator[Command] | None = None
        """Those that wait, in the order in which they came; None: none."""
        self.deferred = False
        """Whether the rest of what came waits for another turn of the loop."""
        self.held = False
        """Whether it waits until the peer has read its answers."""

    def begin(self, link: Link) -> None:
        self._link = link

    def stop(self) -> None:
        """The connection ended."""
        self._link = None
        self.commands = None
        if self._resting is not None:
            self._resting.cancel()

    def add(self, commands: Iterator[Command]) -> None:
        """More came, and waits behind what waits already."""
        self.commands = commands if self.commands is None else chain(self.commands, commands)

    def take(self) -> Iterator[Command] | None:
        """What waits, to be executed now."""
        commands, self.commands = self.commands, None
        return commands

    def defer(self, commands: Iterator[Command]) -> None:
        """These wait for another turn."""
        self.commands = commands
        self.deferred = True
        self._pause()

    def hold(self) -> None:
        """The peer does not read its answers."""
        self.held = True
        self._pause()

    def rest(self, seconds: float, clock: Clock, rested: Callable[[], None]) -> None:
        """Read nothing for a while; ``rested`` is called then, unless the client rests already."""
        if self._resting is None and self._link is not None:
            self._pause()
            self._resting = clock.call_later(seconds, rested)

    def rested(self) -> None:
        """The pause is over."""
        self._resting = None

    def _pause(self) -> None:
        if self._link is not None:
            self._link.pause_reading()

    def read_on(self) -> None:
        """Read again when nothing speaks against it."""
        if self._link is not None and not (self.held or self.deferred or self._resting is not None):
            self._link.resume_reading()
