"""What one connection sends: frames wait for each other, and several are sent in one write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gantrymq.remoting.latency import RequestLatency
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.network import Link

FRAMES_PER_WRITE: Final = 16
"""Answers that are sent in one write: enough to share the cost of the system call, and few enough that the peer can
begin with them while the server works on the next ones."""
SMALL_WRITE_BYTES: Final = 4096
"""After larger writes the session looks how much is unsent; after smaller ones every few seconds, which is soon enough,
as they take long to fill the memory."""


class Outgoing:
    """Frames on their way to a peer. Before ``begin`` and after ``stop`` nothing is sent."""

    __slots__ = ("_clock", "_link", "_scheduled", "_written", "counted", "frames", "latency")

    def __init__(self, clock: Clock, latency: RequestLatency, written: Callable[[], None]) -> None:
        """``latency``: is told when answers are written. ``written``: called after a write that may have made much
        unsent."""
        self._clock = clock
        self._link: Link | None = None
        self._scheduled = False
        self._written = written
        self.counted = False
        """Whether the bytes of this connection are counted, because they are many."""
        self.frames: Final[list[bytes]] = []
        """Those that are not written yet. Whoever adds some writes them."""
        self.latency: Final = latency

    def begin(self, link: Link) -> None:
        self._link = link

    def stop(self) -> None:
        """The connection ended: drop what was not written, and whatever comes."""
        self._link = None
        self._written = _nothing  # no cycle of objects stays
        self.frames.clear()

    def add(self, frame: bytes) -> None:
        """Queue a frame. The frames of one turn of the event loop are sent in few writes."""
        self.frames.append(frame)
        if len(self.frames) >= FRAMES_PER_WRITE:
            self.write_out()
        elif not self._scheduled:
            self._scheduled = True
            self._clock.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        self.write_out()

    def write_out(self) -> None:
        """Write what is queued."""
        frames = self.frames
        if frames:
            self.latency.take()
            data = frames[0] if len(frames) == 1 else b"".join(frames)
            frames.clear()
            self.write(data)

    def write(self, data: bytes) -> None:
        """Write this now, behind what was written."""
        if self._link is not None:
            self._link.write(data)
            if len(data) > SMALL_WRITE_BYTES or self.counted:
                self._written()


def _nothing() -> None:
    """Nobody is told."""
