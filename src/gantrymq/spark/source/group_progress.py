"""Stores on the brokers how far a stream has come, so that their tools show it (the option ``group``)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.message.queues import MessageQueue
from gantrymq.spark.offsets import Positions
from gantrymq.spark.patience import BlockingClock
from gantrymq.spark.source.queue_reader import QueueReader

log = logging.getLogger("gantrymq.spark")

EVERY_S: Final = 5.0
"""As RocketMQ's consumers (persistConsumerOffsetInterval). The progress is for tools; nothing starts from it."""


class GroupProgress:
    """The progress of one query. A broker that cannot store it never disturbs the query: it is stored later."""

    def __init__(self, reader: QueueReader, clock: BlockingClock) -> None:
        self._reader = reader
        self._clock = clock
        self._stored: Positions = {}
        self._stored_at: float | None = None

    def reached(self, positions: Mapping[MessageQueue, int], *, now: bool) -> None:
        """All messages before these positions are processed. ``now``: nothing is new, so this may be the last call."""
        news = {queue: offset for queue, offset in positions.items() if self._stored.get(queue) != offset}
        if not news or not (now or self._is_due()):
            return
        self._stored_at = self._clock.monotonic()
        for queue, offset in news.items():
            try:
                self._reader.commit(queue, offset)
            except GantryError as error:
                log.warning("the progress of the group in %s is not stored and is tried again: %s", queue, error)
                return
            self._stored[queue] = offset

    def _is_due(self) -> bool:
        return self._stored_at is None or self._clock.monotonic() - self._stored_at >= EVERY_S
