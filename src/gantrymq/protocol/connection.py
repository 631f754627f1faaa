"""The state of one connection, without its socket: decodes received bytes to commands, and matches answers with their
requests.

Both sides may send requests at any time, and answers may arrive in any order. The flag tells an answer from a request,
and the opaque tells which request it belongs to. Source: NettyRemotingAbstract; docs/protocol.md#requests-and-answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from msgspec.structs import force_setattr

from gantrymq.errors import LocalProtocolError
from gantrymq.message.sizes import MAX_FRAME_BYTES
from gantrymq.protocol.binary_end import END_TRANSACTION, BinaryEnds
from gantrymq.protocol.binary_send import SEND_V2, BinarySends
from gantrymq.protocol.command import Command, decode_command
from gantrymq.protocol.frame import FrameSplitter

MAX_PENDING: Final = 65536
"""Requests of one connection that may wait for their answers. If there are more, the peer has stopped answering."""

Waiter = TypeVar("Waiter")


class Connection(Generic[Waiter]):
    """The state of one connection. ``Waiter`` is the type of the object that the owner gets back with the answer."""

    __slots__ = ("_binary", "_next_opaque", "_pending", "_splitter")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._splitter = FrameSplitter(max_frame_bytes)
        self._binary = {SEND_V2: BinarySends().decode, END_TRANSACTION: BinaryEnds().decode}
        """Fast decoders for binary headers, by the first two bytes of the header."""
        self._next_opaque = 0
        self._pending: dict[int, tuple[float, Waiter]] = {}

    @property
    def pending(self) -> int:
        """The number of requests that wait for their answers."""
        return len(self._pending)

    @property
    def incomplete_bytes(self) -> int:
        """The number of bytes received of a frame that is not complete."""
        return self._splitter.pending_bytes

    def receive(self, data: bytes, now: float = 0.0) -> Iterator[Command]:
        """The commands that ``data`` completes; ``now`` is when they arrived.

        Raises RemoteProtocolError; then the connection must be closed."""
        binary = self._binary
        for serialization, header, body in self._splitter.feed(data):
            decode = binary.get(header[:2]) if serialization == 1 else None
            if decode is not None:
                command = decode(header, body)
            else:
                command = decode_command(serialization, header, body)
            force_setattr(command, "arrived", now)  # the last step of making it: its decoders know no time
            yield command

    def next_opaque(self) -> int:
        """A number for the next request, unique among those in flight."""
        self._next_opaque = (self._next_opaque + 1) & 0x7FFFFFFF
        return self._next_opaque

    def expect(self, opaque: int, waiter: Waiter, deadline: float) -> None:
        """Until ``deadline`` (seconds of the owner's clock), the answer to ``opaque`` belongs to ``waiter``."""
        if len(self._pending) >= MAX_PENDING:
            raise LocalProtocolError(f"{MAX_PENDING} requests wait for answers on one connection; slow down")
        self._pending[opaque] = (deadline, waiter)

    def answered(self, command: Command) -> Waiter | None:
        """The waiter for this answer; None when there is none (any more)."""
        entry = self._pending.pop(command.opaque, None)
        return entry[1] if entry is not None else None

    def expired(self, now: float) -> list[Waiter]:
        """Remove and return the waiters whose deadline has passed."""
        late = [opaque for opaque, (deadline, _) in self._pending.items() if deadline <= now]
        return [self._pending.pop(opaque)[1] for opaque in late]

    def next_deadline(self) -> float:
        """The earliest deadline of all waiters; there must be at least one."""
        return min(deadline for deadline, _ in self._pending.values())

    def abandon(self) -> list[Waiter]:
        """Remove and return all waiters, because the connection is lost."""
        waiters = [waiter for _, waiter in self._pending.values()]
        self._pending.clear()
        return waiters
