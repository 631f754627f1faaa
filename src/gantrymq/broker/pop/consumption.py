"""Taking messages by POP: read at the group's cursor, write check points, hand out when those are safe.

The ledger, the cursors and the order blocks make the decisions. All calls belong to the event loop. Source:
PopMessageProcessor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from gantrymq.broker.delivery.delivered import Delivered
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.pop.acks import Deliveries
from gantrymq.broker.pop.check_point import Ack, CheckPoint
from gantrymq.broker.pop.cursors import Cursors, Taken
from gantrymq.broker.pop.dead_letters import DeadLetters
from gantrymq.broker.pop.holds import HeldDelivery, ending_at_proxies, held_deliveries
from gantrymq.broker.pop.order_blocks import OrderBlocks
from gantrymq.broker.pop.queues import PopQueues
from gantrymq.broker.pop.revive_log import Line, ReviveLog
from gantrymq.broker.pop.reviver import Reviver
from gantrymq.broker.pop.values import Given, Popped, Wanted
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.json_file import LazyFile, read_json
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import Topics
from gantrymq.errors import ConfigError, StoreError
from gantrymq.message.receipt_handle import ORDERLY
from gantrymq.message.system_topics import normal_topic
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk
from gantrymq.runtime.rng import Rng
from gantrymq.runtime.steady import SteadyTime
from gantrymq.store.message_store import MessageStore

log = logging.getLogger("gantrymq.broker")

ORDER_FILE: Final = "config/consumerOrderInfo.json"
DROP_BATCH: Final = 128
"""Check points of deleted topics that are ended in one write."""
HELD_MAX: Final = 1_000
"""Deliveries in one answer to a proxy; it asks again soon."""


class PopConsumption:
    """See above. ``queues`` are read by it; ``deliveries`` are what it began and consumers end."""

    def __init__(
        self, config: LiveConfig, store: MessageStore, topics: Topics, groups: Groups, offsets: ConsumerOffsets,
        clock: Clock, rng: Rng, disk: Disk, host: bytes, counters: MessageCounters, delivered: Delivered | None = None,
    ) -> None:  # fmt: skip
        """``host``: packed address of this broker. ``delivered``: see ``ReviveLog``. Raises ConfigError when the file
        of orderly pops is damaged."""
        self._config = config
        self._store = store
        self._topics = topics
        self._time = time = SteadyTime(clock, lambda: store.appended) if delivered is None else delivered.time
        self._cursors = Cursors(offsets)
        self.revive_log = ReviveLog(
            store, offsets, clock, config.identity.broker_cluster_name, config.identity.broker_name, host, time,
            delivered,
        )  # fmt: skip
        self._reviver = Reviver(
            store, self.revive_log, topics, groups, clock, time, counters, v2=config.pop.enable_retry_topic_v2
        )  # fmt: skip
        self.blocks = OrderBlocks()
        self._order_path = store.path(ORDER_FILE)
        self._order_file = LazyFile(disk, self._order_path)
        self._turn = 0
        self.queues = PopQueues(config, store, topics, groups, offsets, self._cursors, self.blocks, rng)
        self.deliveries = Deliveries(config, self.revive_log, self._cursors, self.blocks, offsets, clock, time)
        self.dead_letters = DeadLetters(
            store, self.revive_log, self.deliveries, self._cursors, self.blocks, groups, offsets, self._order_file,
            counters, delivered,
        )  # fmt: skip
        self._load(read_json(disk, self._order_path))

    def _load(self, content: dict[object, object] | None) -> None:
        try:
            self.blocks.load(content or {}, self._time.now_ms())
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{self._order_path} is not a table of orderly pops: {error!r}; repair or remove it"
            ) from error  # fmt: skip

    # Life.

    def rebuild(self) -> None:
        """Read the check points that are open, and what was given up."""
        self.revive_log.rebuild(self._cursors)
        self.dead_letters.recover()

    def start(self) -> None:
        self.revive_log.start()
        self._reviver.start()

    async def stop(self) -> None:
        """Bring nothing back any more, and return when what is under way is safe or has failed."""
        await self._reviver.stop()

    def close(self) -> None:
        """Stop and write what was not written. Raises StoreError."""
        self._reviver.close()
        if self.blocks.changed:
            self._order_file.write(self.blocks.content())
            self.blocks.changed = False

    def save_later(self) -> None:
        """Write what changed of orderly pops. Raises StoreError."""
        self.blocks.expire(self._time.now_ms())
        if self.blocks.changed:
            self.blocks.changed = False
            self._order_file.dirty = True
        self._order_file.write_later(self.blocks.content)

    def drop_deleted(self) -> None:
        """A topic was deleted: its messages do not come back, not even when a topic of that name is made again."""
        lines = [
            Line(opened.revive_queue, Ack(opened.point.key, tuple(sorted(opened.pending))))
            for opened in self.revive_log.ledger
            if not self._topics.exists(normal_topic(opened.point.topic, opened.point.group))
        ]
        for start in range(0, len(lines), DROP_BATCH):
            try:
                self.revive_log.write(lines[start : start + DROP_BATCH], _log_error)
            except StoreError as error:
                _log_error(error)

    # Popping.

    def pop(self, wanted: Wanted, given: Given, accept: Callable[[Popped], None] | None = None) -> Popped:
        """Take messages; ``given`` is called when they may be handed out, unless there are none.

        Raises Refused when the store does not take the check points, or when ``accept`` raises it for what was found;
        then nothing was taken.
        """
        pop_time = self._time.wall_ms()
        popped = Popped(pop_time, ORDERLY if wanted.order else self._next_revive_queue(), now_ms=self._time.now_ms())
        self.queues.take(wanted, popped)
        if not popped.batches:
            return popped
        if accept is not None:
            accept(popped)
        if wanted.order:
            self._close_queues(wanted, popped)
            given(popped, None)
        else:
            self._write_check_points(wanted, popped, given)
        return popped

    def held(self) -> list[HeldDelivery]:
        """The deliveries that a door has prolonged for their clients."""
        return list(held_deliveries(self.revive_log.ledger, self.blocks, self._config.identity.broker_name))

    def ending_at_proxies(self, within_ms: int) -> list[HeldDelivery]:
        """Deliveries that a proxy has prolonged, and nobody again: its process may have died."""
        return ending_at_proxies(self.held(), self._time.wall_ms(), within_ms)[:HELD_MAX]

    def peek(self, wanted: Wanted) -> Popped:
        """Look without taking. Raises Refused."""
        popped = Popped(self._time.wall_ms(), 0, now_ms=self._time.now_ms())
        self.queues.look(wanted, popped)
        return popped

    def has_message(self, wanted: Wanted) -> bool:
        """Whether a pop could find something now."""
        return self.queues.has_message(wanted, self._time.now_ms())

    def _next_revive_queue(self) -> int:
        self._turn += 1
        return self._turn % self._config.pop.revive_queue_num

    def _close_queues(self, wanted: Wanted, popped: Popped) -> None:
        for batch in popped.batches:
            batch.counts = self.blocks.popped(
                batch.topic, wanted.group, batch.queue_id, batch.offsets, popped.pop_time, wanted.invisible_time,
                wanted.attempt_id, ahead_ms=popped.pop_time - popped.now_ms,
            )  # fmt: skip
            self._cursors.jump((wanted.group, batch.topic, batch.queue_id), batch.offsets[0])

    def _write_check_points(self, wanted: Wanted, popped: Popped, given: Given) -> None:
        name = self._config.identity.broker_name
        lines = [
            Line(
                popped.revive_queue,
                CheckPoint(
                    batch.topic, wanted.group, batch.queue_id, batch.start_offset, popped.pop_time,
                    wanted.invisible_time, name, tuple(offset - batch.start_offset for offset in batch.offsets),
                ),
            )
            for batch in popped.batches
        ]  # fmt: skip
        taken = [
            self._cursors.take((wanted.group, batch.topic, batch.queue_id), batch.next_offset)
            for batch in popped.batches
        ]
        try:
            self.revive_log.write(lines, partial(self._check_points_ended, popped, taken, given))
        except StoreError as error:
            self._give_back(taken)
            raise Refused(Refusal.FAILED, str(error)) from error

    def _check_points_ended(
        self, popped: Popped, taken: list[Taken], given: Given, error: StoreError | None
    ) -> None:  # fmt: skip
        if error is None:
            for item in taken:
                self._cursors.settle(item)
        else:
            self._give_back(taken)
        given(popped, error)

    def _give_back(self, taken: list[Taken]) -> None:
        for item in taken:
            self._cursors.give_back(item)


def _log_error(error: StoreError | None) -> None:
    if error is not None:
        log.error("check points of a deleted topic could not be ended: %s", error)
