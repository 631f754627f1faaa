"""One stream of a connection: what both sides may still send on it, and what waits to be sent."""

from __future__ import annotations

from collections import deque
from typing import Any


class Stream:
    """A value that its connection changes. ``call``: whatever the owner of the connection keeps with it."""

    __slots__ = ("call", "id", "local_ended", "queue", "queued", "read", "remote_ended", "room", "trailers", "waits",
                 "window")  # fmt: skip

    def __init__(self, stream_id: int, window: int, room: int) -> None:
        self.id = stream_id
        self.window = window
        """Bytes that this side may send. Below 0 when the peer has made it smaller meanwhile."""
        self.room = room
        """Bytes that the peer may send."""
        self.read = 0
        """Bytes that came, and for which the peer was given no new room yet."""
        self.remote_ended = False
        """The peer sends nothing more."""
        self.local_ended = False
        """This side sends nothing more."""
        self.queue: deque[memoryview] = deque()
        """What is sent as soon as there is room."""
        self.queued = 0
        """Bytes of ``queue``."""
        self.trailers: bytes | None = None
        """The header block that ends the stream behind the queue."""
        self.waits = False
        """Somebody is told when the queue is empty."""
        self.call: Any = None
