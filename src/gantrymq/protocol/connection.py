"""One connection without its socket: bytes in, commands out, answers matched with their requests.

Both sides may ask and answer at any time, and answers may come in any order; the flag tells an answer from a request
and the opaque says which request it belongs to. Source: NettyRemotingAbstract; docs/protocol.md#requests-and-answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from gantrymq.errors import LocalProtocolError
from gantrymq.protocol.binary_end import END_TRANSACTION, BinaryEnds
from gantrymq.protocol.binary_send import SEND_V2, BinarySends
from gantrymq.protocol.command import Command, decode_command
from gantrymq.protocol.frame import MAX_FRAME_BYTES, FrameSplitter

MAX_PENDING: Final = 65536
"""Requests of one connection that may wait for their answers; more means the peer has stopped answering."""

Waiter = TypeVar("Waiter")


class Connection(Generic[Waiter]):
    """State of one connection. ``Waiter`` is whatever the owner wants back when the answer comes."""

    __slots__ = ("_binary", "_next_opaque", "_pending", "_splitter")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._splitter = FrameSplitter(max_frame_bytes)
        self._binary = {SEND_V2: BinarySends().decode, END_TRANSACTION: BinaryEnds().decode}
        """Of binary headers, by how they begin."""
        self._next_opaque = 0
        self._pending: dict[int, tuple[float, Waiter]] = {}

    @property
    def pending(self) -> int:
        """Requests that wait for their answers."""
        return len(self._pending)

    def receive(self, data: bytes) -> Iterator[Command]:
        """The commands that ``data`` completes. Raises RemoteProtocolError; then the connection must be closed."""
        binary = self._binary
        for serialization, header, body in self._splitter.feed(data):
            decode = binary.get(header[:2]) if serialization == 1 else None
            if decode is not None:
                yield decode(header, body)
            else:
                yield decode_command(serialization, header, body)

    def next_opaque(self) -> int:
        """A number for the next request, unique among those in flight."""
        self._next_opaque = (self._next_opaque + 1) & 0x7FFFFFFF
        return self._next_opaque

    def expect(self, opaque: int, waiter: Waiter, deadline: float) -> None:
        """Remember that the answer to ``opaque`` belongs to ``waiter`` until ``deadline`` (seconds, owner's clock)."""
        if len(self._pending) >= MAX_PENDING:
            raise LocalProtocolError(f"{MAX_PENDING} requests wait for answers on one connection; slow down")
        self._pending[opaque] = (deadline, waiter)

    def answered(self, command: Command) -> Waiter | None:
        """Who waits for this answer; None when nobody does (any more)."""
        entry = self._pending.pop(command.opaque, None)
        return entry[1] if entry is not None else None

    def expired(self, now: float) -> list[Waiter]:
        """Take out everyone whose deadline has passed."""
        late = [opaque for opaque, (deadline, _) in self._pending.items() if deadline <= now]
        return [self._pending.pop(opaque)[1] for opaque in late]

    def next_deadline(self) -> float:
        """The first deadline of those that wait; there must be one."""
        return min(deadline for deadline, _ in self._pending.values())

    def abandon(self) -> list[Waiter]:
        """Take out everyone: the connection is gone."""
        waiters = [waiter for _, waiter in self._pending.values()]
        self._pending.clear()
        return waiters
