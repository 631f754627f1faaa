"""Which queue a message goes to. No I/O. Source: TopicPublishInfo, MQFaultStrategy; docs/protocol.md#sending."""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.client.sending.faults import FaultTable
from gantrymq.message.queues import MessageQueue


class PublishQueues:
    """The writable queues of a topic, taken in turn."""

    __slots__ = ("_turn", "queues")

    def __init__(self, queues: Sequence[MessageQueue], start: int = 0) -> None:
        self.queues = tuple(queues)
        self._turn = start

    def next(self) -> MessageQueue:
        """The next queue in turn, on any broker."""
        turn = self._turn
        self._turn = turn + 1
        return self.queues[turn % len(self.queues)]

    def put_back(self) -> None:
        """Let the next call return the last queue again."""
        self._turn -= 1

    def choose(self, avoid: str | None, faults: FaultTable, now: float) -> MessageQueue:
        """The next queue in turn that is not on ``avoid`` (the broker that just failed) and not on a slow broker.

        If there is none, a queue that is at least not on ``avoid``; if all queues are on ``avoid``, the next in turn.
        """
        if avoid is None and not faults:
            return self.next()
        fallback: MessageQueue | None = None
        for _ in range(len(self.queues)):
            queue = self.next()
            if queue.broker_name == avoid:
                continue
            if faults.available(queue.broker_name, now):
                return queue
            fallback = fallback or queue
        return fallback or self.next()

    def choose_on(self, broker_name: str) -> MessageQueue | None:
        """The next queue in turn of one broker; None when it has none."""
        for _ in range(len(self.queues)):
            queue = self.next()
            if queue.broker_name == broker_name:
                return queue
        return None
