"""How every half message of the half queue ended: one byte each, and their private file.

An END_TRANSACTION may come again long after the first one, so decisions are kept as long as the half messages
themselves. One byte per half message keeps a million of them in a megabyte.

The file is derived from the op queue and disposable. All integers are big-endian:

    from  bytes  field
       0      8  "GMQTXN" 0x00, version 1
       8      8  first half queue offset in this file
      16      8  next half queue offset: halves below it are in this file
      24      8  next op queue offset: ops below it are in this file
      32      8  log position: final messages below it have their decision in this file
      40      8  log offset of the last half message in this file, -1 = none
      48      8  log offset of the last op message in this file, -1 = none
      56      n  one byte per half message
    56+n      4  CRC-32 of all that
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gantrymq.errors import RemoteProtocolError
from gantrymq.transactions.rules.states import State


class Decision(enum.IntEnum):
    """How a half message ended. The numbers are stored: in the file, and COMMITTED, ROLLED_BACK and PARKED in the
    ``flag`` field of our op records, with the cause; Apache's brokers write it as 0 and ignore it."""

    NONE = 0
    SETTLED = 1
    """Ended while an Apache broker held the store; its op messages do not say how."""
    QUARANTINED = 2
    """Not readable as a half message; never checked, never delivered."""
    PARKED = 4
    COMMITTED = 8
    ROLLED_BACK = 12

    @classmethod
    def of_op(cls, flag: int) -> Decision:
        """The decision that the flag of an op record contains."""
        return _OF_OP.get(flag, cls.SETTLED)

    @property
    def state(self) -> State | None:
        """The state of a half message with this decision; None: there is none that anybody could end."""
        return _STATES.get(self)


class Cause(enum.IntEnum):
    """Why a half message ended so. Stored in the ``flag`` field of our op records, in the bits above the decision."""

    PRODUCER = 0
    """Its producer said so after its local transaction."""
    CHECK_ANSWER = 1 << 4
    """A producer of its group answered a check."""
    OPERATOR = 2 << 4
    """A person decided."""
    UNKNOWN_ANSWERS = 3 << 4
    """Parked: transactionCheckMax checks were answered with UNKNOWN."""
    TOO_OLD = 4 << 4
    """Parked: over the age limit, undecided."""
    RECOVERY = 5 << 4
    """Decided before the broker died, and its op message was lost; the next start wrote it."""

    @classmethod
    def of_op(cls, flag: int) -> Cause | None:
        """The cause that the flag of an op record contains; None when our broker did not write the record."""
        return _BY_CAUSE.get(flag & ~15) if flag in _OF_OP else None


_ENDS: Final = (Decision.PARKED, Decision.COMMITTED, Decision.ROLLED_BACK)
_OF_OP: Final = {decision | cause: decision for decision in _ENDS for cause in Cause}
_BY_CAUSE: Final = {int(cause): cause for cause in Cause}
_STATES: Final = {
    Decision.SETTLED: State.SETTLED,
    Decision.PARKED: State.PARKED,
    Decision.COMMITTED: State.COMMITTED,
    Decision.ROLLED_BACK: State.ROLLED_BACK,
}
_BY_BYTE: Final = {int(decision): decision for decision in Decision}


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a file of decisions knows of the store it was made from; see the table above."""

    next_half: int = 0
    next_op: int = 0
    log_position: int = 0
    last_half_log_offset: int = -1
    last_op_log_offset: int = -1


class DecisionLog:
    """Decisions by half queue offset."""

    def __init__(self, base: int = 0) -> None:
        self._base = base
        self._bytes = bytearray()

    @property
    def base(self) -> int:
        """Offsets below were removed by retention and are unknown."""
        return self._base

    @property
    def size(self) -> int:
        """Bytes of memory, and about as many in the file."""
        return len(self._bytes)

    def __getitem__(self, queue_offset: int) -> Decision:
        index = queue_offset - self._base
        if 0 <= index < len(self._bytes):
            return _BY_BYTE.get(self._bytes[index], Decision.SETTLED)
        return Decision.NONE

    def __setitem__(self, queue_offset: int, decision: Decision) -> None:
        index = queue_offset - self._base
        if index < 0:
            return
        try:
            self._bytes[index] = decision
        except IndexError:
            self._bytes.extend(bytes(max(index + 1 - len(self._bytes), _GROWTH)))
            self._bytes[index] = decision

    def decide(self, queue_offsets: Sequence[int], decision: Decision) -> None:
        """``self[queue_offset] = decision`` for several of them."""
        first, count = queue_offsets[0], len(queue_offsets)
        self[max(queue_offsets)] = decision  # there is room for all of them now
        at = first - self._base
        if at >= 0 and queue_offsets == list(range(first, first + count)):
            self._bytes[at : at + count] = bytes((decision,)) * count
        else:
            for queue_offset in queue_offsets:
                self[queue_offset] = decision

    def count(self, decision: Decision) -> int:
        """How many half messages in the log have this decision."""
        return self._bytes.count(decision)

    def has(self, decision: Decision) -> bool:
        """Whether a half message has this one."""
        return decision.value in self._bytes

    def undecided(self, end: int, start: int = 0, limit: int | None = None) -> list[int]:
        """Half queue offsets from ``start`` up to ``end`` without a decision, at most the first ``limit``."""
        base, known = self._base, self._bytes
        start = max(start, base)
        most = max(end - start, 0) if limit is None else limit
        until = max(min(end - base, len(known)), 0)
        found: list[int] = []
        at = known.find(0, start - base, until)
        while at >= 0 and len(found) < most:
            found.append(base + at)
            at = known.find(0, at + 1, until)
        unknown = max(start, base + len(known))
        found.extend(range(unknown, min(end, unknown + most - len(found))))
        return found

    def copy(self) -> DecisionLog:
        """Another one with the same content."""
        other = DecisionLog(self._base)
        other._bytes[:] = self._bytes
        return other

    def content(self) -> bytes:
        """A byte for each half message from ``base`` on, for ``add``."""
        return bytes(self._bytes)

    def add(self, queue_offset: int, known: bytes) -> None:
        """Take in decisions of half messages that follow each other, a byte each. The first decision wins."""
        known = known[max(self._base - queue_offset, 0) :]
        at = max(queue_offset - self._base, 0)
        grown = at + len(known) - len(self._bytes)
        if grown > 0:
            self._bytes.extend(bytes(grown))
        before = self._bytes[at : at + len(known)]
        if before.count(0) != len(before):
            known = bytes([old or new for old, new in zip(before, known, strict=True)])
        self._bytes[at : at + len(known)] = known

    def forget_below(self, queue_offset: int) -> None:
        """Retention removed the half messages below."""
        if queue_offset > self._base:
            del self._bytes[: queue_offset - self._base]
            self._base = queue_offset

    def encode(self, coverage: Coverage) -> bytes:
        """The file's bytes."""
        count = max(coverage.next_half - self._base, 0)
        head = _HEAD.pack(
            _MAGIC, self._base, self._base + count, coverage.next_op, coverage.log_position,
            coverage.last_half_log_offset, coverage.last_op_log_offset,
        )  # fmt: skip
        known = bytes(self._bytes[:count])
        data = head + known + bytes(count - len(known))
        return data + _CRC.pack(zlib.crc32(data))

    @classmethod
    def decode(cls, data: bytes) -> tuple[DecisionLog, Coverage]:
        """The content of a file; RemoteProtocolError when it is damaged or of another version."""
        if len(data) < _HEAD.size + _CRC.size or _CRC.unpack_from(data, len(data) - 4)[0] != zlib.crc32(data[:-4]):
            raise RemoteProtocolError("the file of decisions is damaged")
        magic, base, next_half, next_op, log_position, last_half, last_op = _HEAD.unpack_from(data)
        if magic != _MAGIC or next_half - base != len(data) - _HEAD.size - _CRC.size:
            raise RemoteProtocolError("the file of decisions has another version")
        log = cls(base)
        log._bytes[:] = data[_HEAD.size : -4]
        return log, Coverage(next_half, next_op, log_position, last_half, last_op)


_MAGIC: Final = b"GMQTXN\x00\x01"
_HEAD: Final = struct.Struct(">8sqqqqqq")
_CRC: Final = struct.Struct(">I")
_GROWTH: Final = 4096
"""Bytes the log grows by at once."""
