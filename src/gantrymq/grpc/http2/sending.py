"""What this side sends, and when it may: windows of the peer, for each stream and for the connection.

Source: RFC 9113, 5.2 and 6.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from gantrymq.grpc.http2 import frames
from gantrymq.grpc.http2.codes import FIRST_WINDOW, LARGEST_WINDOW, LEAST_FRAME, ErrorCode, Flag, Frame
from gantrymq.grpc.http2.hpack import FORGET_TABLE
from gantrymq.grpc.http2.stream import Stream

TURN_BYTES: Final = 64 * 1024
"""So much of one stream is sent before it is the turn of the next one."""
LARGEST_SENT: Final = 64 * 1024
"""Larger frames are not sent, even to a peer that takes them: the others would wait for them."""
_DATA: Final = int(Frame.DATA)
_HEADERS: Final = int(Frame.HEADERS)


class Sending:
    """Frames of this side. ``ended``: called when a stream was sent to its end; ``drained``: when the queue of a stream
    that somebody waits for is empty."""

    __slots__ = (
        "_drained",
        "_ended",
        "_waiting",
        "first_window",
        "largest_frame",
        "out",
        "queued",
        "table_is_smaller",
        "window",
    )

    def __init__(self, ended: Callable[[Stream], None], drained: Callable[[Stream], None]) -> None:
        self._ended = ended
        self._drained = drained
        self._waiting: dict[Stream, None] = {}
        """Streams with room of their own that wait for the window of the connection, in their order."""
        self.out: list[bytes] = []
        """What is to be written."""
        self.window = FIRST_WINDOW
        """Bytes of data that may be sent on all streams together."""
        self.first_window = FIRST_WINDOW
        """The window of a new stream, as the peer says."""
        self.largest_frame = LEAST_FRAME
        self.queued = 0
        """Bytes that wait for room, of all streams."""
        self.table_is_smaller = False
        """The peer keeps a smaller table than at first; the next block of headers says that this side knows."""

    def take(self) -> bytes:
        """What is to be written now."""
        out = self.out
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return data

    def headers(self, stream: Stream, block: bytes) -> None:
        """Begin the answer."""
        self.out.append(self._headers(stream, block, end=False))

    def _headers(self, stream: Stream, block: bytes, *, end: bool) -> bytes:
        if self.table_is_smaller:
            self.table_is_smaller = False
            block = FORGET_TABLE + block
        return frames.headers(stream.id, block, self.largest_frame, end=end)

    def data(self, stream: Stream, data: bytes) -> None:
        """Send now, or as soon as there is room."""
        size = len(data)
        if not size:  # in a queue it would wait for ever: no room is large enough for a part of nothing
            return
        if not stream.queue and size <= stream.window and size <= self.window and size <= self.largest_frame:
            stream.window -= size
            self.window -= size
            self.out.append(frames.head(size, Frame.DATA, 0, stream.id) + data)
            return
        stream.queue.append(memoryview(data))
        stream.queued += size
        self.queued += size
        self._push(stream)

    def whole(self, stream: Stream, headers: bytes, data: bytes, trailers: bytes) -> None:
        """An answer from its beginning to its end. Nearly each fits and is one piece of bytes."""
        size = len(data)
        if size > min(stream.window, self.window, self.largest_frame) or self.table_is_smaller or stream.queue:
            self.headers(stream, headers)
            self.data(stream, data)
            self.trailers(stream, trailers)
            return
        stream.window -= size
        self.window -= size
        head, number = frames.HEAD.pack, stream.id
        self.out += (
            head(0, len(headers), _HEADERS, Flag.END_HEADERS, number), headers,
            head(size >> 16, size & 0xFFFF, _DATA, 0, number), data,
            head(0, len(trailers), _HEADERS, Flag.END_HEADERS | Flag.END_STREAM, number), trailers,
        )  # fmt: skip
        stream.local_ended = True
        self._ended(stream)

    def trailers(self, stream: Stream, block: bytes) -> None:
        """End the answer, behind all that waits."""
        if stream.queue:
            stream.trailers = block
            return
        self.out.append(self._headers(stream, block, end=True))
        stream.local_ended = True
        self._ended(stream)

    def reset(self, stream: Stream, code: ErrorCode) -> None:
        """End the stream at once."""
        self.forget(stream)
        self.out.append(frames.reset(stream.id, code))

    def forget(self, stream: Stream) -> None:
        """The stream is over: nothing of it is sent any more."""
        stream.local_ended = True
        self._waiting.pop(stream, None)
        self.queued -= stream.queued
        stream.queue.clear()
        stream.queued = 0
        stream.trailers = None

    # Room from the peer.

    def allow_frames(self, largest: int) -> None:
        """The peer takes frames of this size."""
        self.largest_frame = min(largest, LARGEST_SENT)

    def more_room(self, size: int) -> bool:
        """For all streams together; False: it is more than a window may have."""
        self.window += size
        if self.window > LARGEST_WINDOW:
            return False
        self._serve()
        return True

    def more_room_of(self, stream: Stream, size: int) -> bool:
        """For one stream; False: it is more than a window may have."""
        stream.window += size
        if stream.window > LARGEST_WINDOW:
            return False
        if stream.queue:
            self._push(stream)
        return True

    def change_windows(self, first_window: int, streams: Iterable[Stream]) -> bool:
        """The peer gives another window to each stream, also to those that exist. False: as above."""
        change, self.first_window = first_window - self.first_window, first_window
        return all([self.more_room_of(stream, change) for stream in list(streams)])

    def _push(self, stream: Stream) -> None:
        """Something waits on this stream."""
        if stream.window > 0:
            self._waiting[stream] = None
            self._serve()

    def _serve(self) -> None:
        """Send what waits, stream by stream, until the connection has no room or nothing waits."""
        waiting = self._waiting
        while waiting and self.window > 0:
            stream = next(iter(waiting))
            del waiting[stream]
            self._turn(stream)
            if stream.queue and stream.window > 0:
                waiting[stream] = None  # behind the others

    def _turn(self, stream: Stream) -> None:
        queue, sent = stream.queue, 0
        while queue and sent < TURN_BYTES:
            size = min(len(queue[0]), stream.window, self.window, self.largest_frame)
            if size <= 0:
                break
            part = queue[0][:size]
            if size == len(queue[0]):
                queue.popleft()
            else:
                queue[0] = queue[0][size:]
            self.out += (frames.head(size, Frame.DATA, 0, stream.id), bytes(part))
            sent += size
            stream.window -= size
            self.window -= size
        stream.queued -= sent
        self.queued -= sent
        if not queue:
            self._is_empty(stream)

    def _is_empty(self, stream: Stream) -> None:
        if stream.trailers is not None:
            block, stream.trailers = stream.trailers, None
            self.trailers(stream, block)
        elif stream.waits:
            stream.waits = False
            self._drained(stream)


ACK_OF_SETTINGS: Final = frames.frame(Frame.SETTINGS, Flag.ACK, 0, b"")
