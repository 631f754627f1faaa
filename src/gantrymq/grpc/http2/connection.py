"""The server's side of one connection: frames become calls of a ``Peer``, and what is sent is collected.

Source: RFC 9113. Rules that no gRPC client needs are left out: this side pushes nothing, and priorities are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from gantrymq.grpc.http2 import budget, frames
from gantrymq.grpc.http2.budget import Budget
from gantrymq.grpc.http2.codes import (
    FIRST_WINDOW,
    LARGEST_FRAME,
    LARGEST_WINDOW,
    LEAST_FRAME,
    PREFACE,
    ConnectionFailed,
    ErrorCode,
    Flag,
    Frame,
    Setting,
)
from gantrymq.grpc.http2.hpack import TABLE_BYTES, Header, HeaderDecoder
from gantrymq.grpc.http2.sending import ACK_OF_SETTINGS, Sending
from gantrymq.grpc.http2.stream import Stream

STREAMS: Final = 1_000
"""Calls that one connection may have at a time. Long polls are calls, too: a client has one for each of its queues."""
STREAM_WINDOW: Final = 1 << 20
CONNECTION_WINDOW: Final = 16 << 20
HEADERS_BYTES: Final = 16 * 1024
"""The headers of one call, decoded."""
BLOCK_BYTES: Final = 32 * 1024
"""The same as it comes."""
BLOCK_FRAMES: Final = 64
"""Frames of one block: many small ones would cost more than they bring."""


class Peer(Protocol):
    """What happens on the streams. ``stream.call`` is free for whoever listens."""

    def began(self, stream: Stream, headers: list[Header]) -> None:
        """A call comes. Its data may follow."""

    def came(self, stream: Stream, data: bytes) -> None:
        """A piece of the data of a call."""

    def ended(self, stream: Stream) -> None:
        """The peer sends nothing more on this stream."""

    def given_up(self, stream: Stream) -> None:
        """The stream is over before its answer was sent to its end. Called at most once, and not after ``reset``."""

    def drained(self, stream: Stream) -> None:
        """Everything that waited was sent; ``stream.waits`` had asked for this."""


class Http2Connection:
    """When the peer breaks a rule, ``receive`` raises ConnectionFailed, and a farewell is among what is to be sent."""

    def __init__(self, peer: Peer, now: float) -> None:
        self._peer = peer
        self._rest = b""
        self.greeted = False
        """The peer has said that it speaks HTTP/2."""
        self._settled = False
        """The peer has said its settings, as it must before anything else."""
        self._decoder = HeaderDecoder(HEADERS_BYTES)
        self._budget = Budget(now)
        self._block: tuple[int, bool, list[bytes]] | None = None
        """Stream, whether it ends there, and the pieces of a header block that goes on in the next frame."""
        self._room = CONNECTION_WINDOW
        self._read = 0
        self._closing = False
        self._now = now
        self.last_stream = 0
        """The newest stream that the peer has opened."""
        self.streams: dict[int, Stream] = {}
        self.sending: Final = Sending(self._sent, peer.drained)
        self.sending.out += (
            frames.settings(
                {
                    Setting.MAX_CONCURRENT_STREAMS: STREAMS,
                    Setting.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                    Setting.MAX_HEADER_LIST_SIZE: HEADERS_BYTES,
                }
            ),
            frames.more_room(0, CONNECTION_WINDOW - FIRST_WINDOW),
        )
        self._handlers: Final[tuple[Callable[[int, int, bytes], None], ...]] = (
            self._data, self._headers, self._priority, self._reset_by_peer, self._settings, self._push, self._ping,
            self._farewell, self._window, self._continuation,
        )  # fmt: skip
        """By the type of a frame."""

    @property
    def incomplete_bytes(self) -> int:
        """Bytes that came and are no whole frame, or no whole block, yet."""
        return len(self._rest) + (sum(map(len, self._block[2])) if self._block is not None else 0)

    # What comes.

    def receive(self, data: bytes, now: float) -> None:
        """``now``: seconds of a monotonic clock. Raises ConnectionFailed."""
        self._now = now
        buffer = self._rest + data if self._rest else data
        try:
            at = 0 if self.greeted else self._greet(buffer)
            self._rest = buffer[self._frames(buffer, at) :] if self.greeted else buffer
        except ConnectionFailed as failed:
            self._rest = b""
            self.close(failed.code, str(failed))
            raise

    def _greet(self, buffer: bytes) -> int:
        if not PREFACE.startswith(buffer[: len(PREFACE)]):
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "it does not speak HTTP/2")
        if len(buffer) < len(PREFACE):
            return 0
        self.greeted = True
        return len(PREFACE)

    def _frames(self, buffer: bytes, at: int) -> int:
        """Handle whole frames; the place behind the last one."""
        unpack, head, handlers, end = frames.HEAD.unpack_from, frames.HEAD.size, self._handlers, len(buffer)
        while end - at >= head:
            high, low, kind, flags, stream_id = unpack(buffer, at)
            length = high << 16 | low
            if length > LEAST_FRAME:
                raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, f"a frame has {length} bytes")
            if end - at - head < length:
                break
            at += head
            payload = buffer[at : at + length]
            at += length
            stream_id &= frames.STREAM_BITS
            frames.check(kind, stream_id, length)
            if not self._settled and (kind != Frame.SETTINGS or flags & Flag.ACK):
                raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "the first frame has no settings")
            if self._block is not None and kind != Frame.CONTINUATION:
                raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a header block is interrupted")
            if kind < len(handlers):
                handlers[kind](flags, stream_id, payload)
            else:
                self._budget.spend(budget.FRAME, self._now)
        return at

    def _data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        self._room -= size
        self._read += size
        if self._room < 0:
            raise ConnectionFailed(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection has room for")
        if self._read >= CONNECTION_WINDOW // 2:
            self.sending.out.append(frames.more_room(0, self._read))
            self._room += self._read
            self._read = 0
        stream = self._open_stream(stream_id)
        data = frames.content(payload, flags)
        if not data and not flags & Flag.END_STREAM:
            self._budget.spend(budget.ANSWERED, self._now)
        if stream is None:
            self._budget.spend(budget.FRAME, self._now)
            return
        if stream.remote_ended:
            self.reset(stream, ErrorCode.STREAM_CLOSED, by_peer=True)
            return
        stream.room -= size
        if stream.room < 0:
            self.reset(stream, ErrorCode.FLOW_CONTROL_ERROR, by_peer=True)
            return
        if data:
            self._peer.came(stream, data)
        if flags & Flag.END_STREAM:
            self._ended_by_peer(stream)
        else:
            self._give_room(stream, size)

    def _give_room(self, stream: Stream, size: int) -> None:
        stream.read += size
        if stream.read >= STREAM_WINDOW // 2 and stream.id in self.streams:
            self.sending.out.append(frames.more_room(stream.id, stream.read))
            stream.room += stream.read
            stream.read = 0

    def _open_stream(self, stream_id: int) -> Stream | None:
        """None: it is over, and the frame was under way. Raises ConnectionFailed for one that was never opened."""
        stream = self.streams.get(stream_id)
        if stream is None and (stream_id > self.last_stream or not stream_id & 1):
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, f"a frame names the stream {stream_id}, which is not open")
        return stream

    def _headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id & 1:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, f"{stream_id} is not a stream of a client")
        block = frames.content(payload, flags, priority=True)
        ended = bool(flags & Flag.END_STREAM)
        if flags & Flag.END_HEADERS:
            self._whole_block(stream_id, ended, block)
        else:
            self._block = stream_id, ended, [block]

    def _continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is None or self._block[0] != stream_id:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a header block goes on that did not begin")
        _, ended, parts = self._block
        parts.append(payload)
        if len(parts) > BLOCK_FRAMES or sum(map(len, parts)) > BLOCK_BYTES:
            raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, f"a header block has more than {BLOCK_BYTES} bytes")
        if flags & Flag.END_HEADERS:
            self._block = None
            self._whole_block(stream_id, ended, b"".join(parts))

    def _whole_block(self, stream_id: int, ended: bool, block: bytes) -> None:
        headers = self._decoder.decode(block)  # each one: the table of the peer goes on
        stream = self.streams.get(stream_id)
        if stream is None and stream_id > self.last_stream:
            self._begin(stream_id, headers, ended)
        elif stream is None:  # of a stream that this side has ended
            self._budget.spend(budget.ANSWERED, self._now)
        elif stream.remote_ended or not ended:
            self.reset(stream, ErrorCode.PROTOCOL_ERROR, by_peer=True)  # headers in the middle of the data
        else:
            self._ended_by_peer(stream)  # trailers: no method has any

    def _begin(self, stream_id: int, headers: list[Header], ended: bool) -> None:
        self.last_stream = stream_id
        if self._closing or len(self.streams) >= STREAMS:
            self._budget.spend(budget.GIVEN_UP, self._now)
            self.sending.out.append(frames.reset(stream_id, ErrorCode.REFUSED_STREAM))
            return
        stream = self.streams[stream_id] = Stream(stream_id, self.sending.first_window, STREAM_WINDOW)
        self._peer.began(stream, headers)
        if ended:
            self._ended_by_peer(stream)

    def _ended_by_peer(self, stream: Stream) -> None:
        stream.remote_ended = True
        if stream.local_ended:
            self.streams.pop(stream.id, None)
        elif stream.id in self.streams:
            self._peer.ended(stream)

    def _reset_by_peer(self, flags: int, stream_id: int, payload: bytes) -> None:
        stream = self._open_stream(stream_id)
        self._budget.spend(budget.FRAME if stream is None else budget.GIVEN_UP, self._now)
        if stream is not None:
            self._drop(stream, told=True)

    def _drop(self, stream: Stream, *, told: bool) -> None:
        self.streams.pop(stream.id, None)
        self.sending.forget(stream)
        if told:
            self._peer.given_up(stream)

    def _settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if flags & Flag.ACK:
            if payload:
                raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, "a confirmation of settings has a content")
            self._budget.spend(budget.FRAME, self._now)
            return
        said = frames.pairs(payload)
        self._budget.spend(budget.ANSWERED + len(said), self._now)
        self._settled = True
        out = self.sending.out
        before = len(out)
        for name, value in said:
            self._change(name, value)
        # In front of what a larger window or frame lets go: for the client they are larger from here on only.
        out.insert(before, ACK_OF_SETTINGS)

    def _change(self, name: int, value: int) -> None:
        sending = self.sending
        if name == Setting.INITIAL_WINDOW_SIZE:
            # Each open stream is touched, so a small frame may be much work.
            self._budget.spend(len(self.streams), self._now)
            if value > LARGEST_WINDOW or not sending.change_windows(value, self.streams.values()):
                raise ConnectionFailed(ErrorCode.FLOW_CONTROL_ERROR, f"a window of {value} bytes is too large")
        elif name == Setting.MAX_FRAME_SIZE:
            if not LEAST_FRAME <= value <= LARGEST_FRAME:
                raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, f"{value} is not a valid size of frames")
            sending.allow_frames(value)
        elif name == Setting.HEADER_TABLE_SIZE and value < TABLE_BYTES:
            sending.table_is_smaller = True
        elif name == Setting.ENABLE_PUSH and value > 1:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, f"ENABLE_PUSH is {value}; 0 and 1 are valid")

    def _ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if flags & Flag.ACK:
            self._budget.spend(budget.FRAME, self._now)
            return
        self._budget.spend(budget.ANSWERED, self._now)
        self.sending.out.append(frames.frame(Frame.PING, Flag.ACK, 0, payload))

    def _window(self, flags: int, stream_id: int, payload: bytes) -> None:
        self._budget.spend(budget.FRAME, self._now)
        size = frames.number(payload) & frames.STREAM_BITS
        stream = self._open_stream(stream_id) if stream_id else None
        if stream_id and stream is None:
            return
        if not size:
            if stream is None:
                raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a window grows by nothing")
            self.reset(stream, ErrorCode.PROTOCOL_ERROR, by_peer=True)
        elif stream is None:
            if not self.sending.more_room(size):
                raise ConnectionFailed(ErrorCode.FLOW_CONTROL_ERROR, "the window of the connection is too large")
        elif not self.sending.more_room_of(stream, size):
            self.reset(stream, ErrorCode.FLOW_CONTROL_ERROR, by_peer=True)

    def _priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        self._budget.spend(budget.FRAME, self._now)

    def _push(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a client pushes nothing")

    def _farewell(self, flags: int, stream_id: int, payload: bytes) -> None:
        """The peer opens no more streams; it closes the connection when the others are over."""
        if len(payload) < 8:
            raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, f"a frame GOAWAY has {len(payload)} bytes")
        self._budget.spend(budget.FRAME, self._now)

    # What is sent.

    def ping(self) -> None:
        """Ask whether the peer is there; anything that comes says so."""
        self.sending.out.append(frames.frame(Frame.PING, 0, 0, b"gantrymq"))

    def reset(self, stream: Stream, code: ErrorCode, *, by_peer: bool = False) -> None:
        """End a stream at once. ``by_peer``: because of what the peer did, so whoever listens is told."""
        if stream.id not in self.streams:
            return
        if by_peer:
            self._budget.spend(budget.GIVEN_UP, self._now)
        self.sending.reset(stream, code)
        self._drop(stream, told=by_peer)

    def close(self, code: ErrorCode, text: str = "") -> None:
        """Take no more streams. Those that exist go on."""
        if not self._closing:
            self._closing = True
            self.sending.out.append(frames.go_away(self.last_stream, code, text))

    def _sent(self, stream: Stream) -> None:
        """The answer was sent to its end."""
        self._budget.earn(budget.OF_CALL)
        self.streams.pop(stream.id, None)
        if not stream.remote_ended:
            # The peer need not send the rest. Source: RFC 9113, 8.1.
            self.sending.out.append(frames.reset(stream.id, ErrorCode.NO_ERROR))
