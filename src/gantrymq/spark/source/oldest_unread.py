"""Finds out how old the oldest message is that a stream has not read yet."""

from __future__ import annotations

import struct
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.message import flags
from gantrymq.protocol import stored_message as record
from gantrymq.spark.offsets import Positions
from gantrymq.spark.source.queue_reader import QueueReader

MOST_QUEUES: Final = 16
"""So many queues are asked at each look; one question takes about a millisecond."""
_ONE_MESSAGE_BYTES: Final = 1
"""A broker answers with at least one whole message, whatever the limit."""
_LONG: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")


class OldestUnread:
    """The time at which the oldest unread message was stored, by the brokers' clocks."""

    def __init__(self) -> None:
        self.stored_ms: int | None = None
        """None while everything is read, or while no broker answers."""
        self._looked: Positions = {}

    def look(self, reader: QueueReader, end: Positions, latest: Positions) -> None:
        """Look at the first message behind ``end`` in the queues with the largest backlog."""
        behind = {queue: latest[queue] - at for queue, at in end.items() if latest.get(queue, 0) > at}
        chosen = sorted(behind, key=lambda queue: -behind[queue])[:MOST_QUEUES]
        places = {queue: end[queue] for queue in chosen}
        if not places:
            self.stored_ms = None
        elif places != self._looked:
            try:
                answers = [reader.pull_raw(queue, at, 1, _ONE_MESSAGE_BYTES) for queue, at in places.items()]
            except GantryError:
                return  # the query itself repeats what fails; this figure may come later
            times = [_stored_at(answer.data) for answer in answers]
            self.stored_ms = min((time for time in times if time is not None), default=None)
        self._looked = places


def _stored_at(data: bytes) -> int | None:
    """The store time of the first record; None when there is no record."""
    if len(data) < record.FIXED_SIZE:
        return None
    (sys_flag,) = _INT.unpack_from(data, record.AT_SYS_FLAG)
    shift = record.IPV6_EXTRA if sys_flag & flags.BORN_HOST_V6 else 0
    return int(_LONG.unpack_from(data, record.AT_STORE_TIMESTAMP + shift)[0])
