"""Consumes the messages of a queue concurrently, in no particular order. Source: ConsumeMessageConcurrentlyService."""

from __future__ import annotations

import logging
from typing import Final

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.consuming.consume_pool import ConsumePool, consume_pool
from gantrymq.client.consuming.push_queue import PushQueue
from gantrymq.client.consuming.send_back import SendBacks
from gantrymq.client.listener import described
from gantrymq.client.message_listener import MessageListener
from gantrymq.client.results import ReconsumeLater
from gantrymq.message.message import MessageView

log = logging.getLogger("gantrymq.client")

GIVE_BACK_PAUSE_S: Final = 5.0
"""When messages that no broker took back are consumed again by this member, as in Apache's client."""


class ConcurrentConsumption:
    """Hands batches to the listener, and sends back to the broker the messages that were not consumed.

    ``send_backs``: None in a broadcasting group, where a message that failed is not delivered again.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        listener: MessageListener,
        threads: int,
        batch_size: int,
        send_backs: SendBacks | None,
    ) -> None:
        self._endpoint = endpoint
        self._batch_size = batch_size
        self._send_backs = send_backs
        self._giving_back = 0
        self._pool: ConsumePool[PushQueue] = consume_pool(
            listener, threads, lambda queue: not queue.dropped, self._finished, endpoint.clock.monotonic
        )

    @property
    def running(self) -> int:
        """The number of running listeners and of batches that are being sent back."""
        return self._pool.running + self._giving_back

    @property
    def in_threads(self) -> int:
        """The number of batches that the threads of the pool are at work on, or that wait for a thread."""
        return self._pool.in_threads

    def excuse(self) -> None:
        """See ConsumePool."""
        self._pool.excuse()

    def close(self) -> None:
        """Call the listener no more."""
        self._pool.close()

    def put(self, reader: PushQueue, found: list[MessageView]) -> None:
        size, since = self._batch_size, self._endpoint.clock.monotonic()
        for first in range(0, len(found), size):
            self._pool.put(reader, found[first : first + size], since)

    async def left(self, reader: PushQueue) -> None:
        """A queue was given up. There is nothing to wait for: its next reader may begin at once."""

    def _finished(self, reader: PushQueue, batch: list[MessageView], again: ReconsumeLater | None) -> None:
        if reader.dropped:
            return
        if again is None:
            reader.finish(batch)
        elif self._endpoint.running:
            if self._send_backs is None:
                log.warning(
                    "%d message(s) of %s failed; broadcast messages are not delivered again", len(batch), reader.queue
                )
                reader.finish(batch)
                return
            self._giving_back += 1
            work = self._give_back(self._send_backs, reader, batch, again.delay_level)
            self._endpoint.tasks.start("give back", work)

    async def _give_back(
        self, send_backs: SendBacks, reader: PushQueue, batch: list[MessageView], delay_level: int
    ) -> None:
        kept: list[MessageView] = []
        try:
            for view in batch:
                try:
                    await send_backs.give_back(view, delay_level)
                    reader.finish([view])
                except Exception as error:  # noqa: BLE001 - the listener may have made it impossible to send
                    words = described(error)
                    log.warning(
                        "%s could not be sent back to the broker; it is consumed again here: %s", view.message_id, words
                    )
                    kept.append(view)
        finally:
            self._giving_back -= 1
        if kept:
            await self._endpoint.clock.sleep(GIVE_BACK_PAUSE_S)
            if not reader.dropped:
                self._pool.put(reader, kept, self._endpoint.clock.monotonic())
