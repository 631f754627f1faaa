"""What clients ask about lite topics: to subscribe to some, and to be given messages of those that they read.

A pop takes messages of each lite topic in their order, and a lite topic is blocked for its group while one of its
messages is in flight, as in an orderly pop (``pop.order_blocks``): there is no retry topic. Source:
LiteSubscriptionCtlProcessor, PopLiteMessageProcessor of 5.5.0; docs/protocol.md#lite-topics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

from gantrymq.broker.client import Client
from gantrymq.broker.filtering.selection import EVERYTHING
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.pop.consumption import PopConsumption
from gantrymq.broker.pop.lite.ready import ReadyQueues
from gantrymq.broker.pop.lite.starts import LiteStart, LiteStarts
from gantrymq.broker.pop.lite.subscriptions import LiteReader, LiteSubscriptions
from gantrymq.broker.pop.queues import PopChecks
from gantrymq.broker.pop.requests import EARLY_MS, MAX_WAIT_MS
from gantrymq.broker.pop.values import MAX_COUNT, MAX_INVISIBLE_MS, PopDone, Popped, PopResult, PopStatus, Wanted
from gantrymq.broker.pop.waiting import Waiter, Waiting
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.groups import Groups
from gantrymq.errors import MessageIllegal, StoreError
from gantrymq.message.lite_topics import check_lite_topic, is_lite_queue, lite_queue, lite_topic_of
from gantrymq.message.message_types import TYPE_LITE
from gantrymq.protocol.files.groups import Group
from gantrymq.runtime.clock import Clock
from gantrymq.store.dispatch import Arrival, Pending

ANY_QUEUE: Final = -1
SILENT_SECONDS: Final = 180.0
"""Six times the pause in which clients repeat what they read. Source: liteSubscriptionCheckTimeoutMills."""
QUEUES_AT_ONCE: Final = 200
"""Lite topics that one pop looks at."""
Evicted = Callable[[LiteReader, str], None]
"""Called with a reader and the lite topic that another member of its group has taken."""


class LitePops:
    """Subscriptions and pops of all clients."""

    def __init__(
        self, checks: PopChecks, groups: Groups, consumption: PopConsumption, starts: LiteStarts, waiting: Waiting,
        clock: Clock, counters: MessageCounters, arrivals: list[Arrival], subscriptions: LiteSubscriptions,
    ) -> None:  # fmt: skip
        """``arrivals``: those who are told about all new messages; from the first subscription on, this is one."""
        self._arrivals = arrivals
        self._listens = False
        self._checks = checks
        self._groups = groups
        self._consumption = consumption
        self._starts = starts
        self.waiting: Final = waiting
        self._clock = clock
        self._counters = counters
        self.subscriptions: Final = subscriptions
        self._heard: dict[LiteReader, float] = {}
        """When each reader spoke last, seconds by the monotonic clock."""
        self._ready: Final = ReadyQueues()
        self.evicted: list[Evicted] = []

    # Subscribing.

    def subscribe(
        self, reader: LiteReader, topic: str, lite_topics: Collection[str], start: LiteStart | None = None
    ) -> None:  # fmt: skip
        """The reader reads these lite topics, too. Raises Refused; then nothing is changed."""
        group, queues = self._bound(topic, reader.group), _queues(topic, lite_topics)
        new = self.subscriptions.add(reader, queues, group.lite_client_quota)
        self._heard[reader] = self._clock.monotonic()
        if start is not None:
            for queue in queues:
                self._starts.set(reader.group, queue, start)
        self._began(reader, group, new)

    def subscribe_exactly(self, reader: LiteReader, topic: str, lite_topics: Collection[str]) -> None:
        """The reader reads these lite topics, and no others. Raises Refused; then nothing is changed."""
        group, queues = self._bound(topic, reader.group), _queues(topic, lite_topics)
        before = list(self.subscriptions.of(reader))
        new = self.subscriptions.replace(reader, queues, group.lite_client_quota)
        self._heard[reader] = self._clock.monotonic()
        self._ready.drop(reader, [queue for queue in before if queue not in queues])
        self._began(reader, group, new)

    def unsubscribe(self, reader: LiteReader, topic: str, lite_topics: Collection[str]) -> None:
        """The reader does not read these lite topics any more."""
        self._ready.drop(reader, self.subscriptions.remove(reader, _queues(topic, lite_topics)))

    def leave(self, reader: LiteReader) -> None:
        """The reader reads nothing any more: others of its group get what it would have got."""
        gone = self.subscriptions.forget(reader)
        self._heard.pop(reader, None)
        self._ready.drop(reader, gone)
        for queue in gone:
            self.opened(queue, reader.group)

    def client_gone(self, client: str) -> None:
        """A client is not there any more, in whichever groups it was."""
        for reader in self.subscriptions.all_readers():
            if reader.client == client:
                self.leave(reader)

    def resume(self) -> None:
        """Go on with the subscriptions that were there before the start."""
        for reader in self.subscriptions.all_readers():
            self._heard[reader] = self._clock.monotonic()
            self._listen()
            self._note_waiting(reader, self.subscriptions.of(reader))

    def expire(self) -> None:
        """Forget those who have repeated nothing for too long: what they would get is for others of their groups."""
        before = self._clock.monotonic() - SILENT_SECONDS
        for reader in self.subscriptions.all_readers():
            if self._heard.get(reader, before) <= before:
                self.leave(reader)

    def _listen(self) -> None:
        if not self._listens:
            self._listens = True
            self._arrivals.append(self._arrived_run)

    def _note_waiting(self, reader: LiteReader, queues: Collection[str]) -> None:
        waiting = [queue for queue in queues if self._consumption.queues.has_more(reader.group, queue)]
        if waiting:
            self._ready.note(reader, waiting)
            self._wake(reader)

    def _began(self, reader: LiteReader, group: Group, queues: Sequence[str]) -> None:
        self._listen()
        if group.lite_exclusive:
            for queue in queues:
                for other in self.subscriptions.others(reader, queue):
                    self._ready.drop(other, self.subscriptions.remove(other, [queue]))
                    for tell in self.evicted:
                        tell(other, lite_topic_of(queue))
        self._note_waiting(reader, queues)

    def _bound(self, topic: str, group_name: str) -> Group:
        """The group, which must read lite topics of this topic. Raises Refused."""
        if self._checks.topic(topic).message_type != TYPE_LITE:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"the topic [{topic}] message type not match: it has no lite topics; make a topic of type LITE",
            )
        self._checks.may_read(topic, ANY_QUEUE, group_name)
        group = self._groups.get(group_name)
        if group is None or group.lite_bind_topic != topic:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"subscription bind topic not match, {group_name}: set its attribute lite.bind.topic={topic} "
                f"(gantry group alter {group_name} -a lite.bind.topic={topic})",
            )
        return group

    # Popping.

    def pop(
        self, client: Client, reader: LiteReader, topic: str, count: int, invisible_ms: int, wait_ms: int,
        attempt_id: str | None, done: PopDone,
    ) -> PopResult | None:  # fmt: skip
        """As ``PopRequests.pop``, of the lite topics that the reader has subscribed to. Raises Refused."""
        if not client.writable:
            raise Refused(Refusal.ANSWERS_UNREAD, "read the answers to earlier pops first, then ask again")
        if not 1 <= count <= MAX_COUNT:
            raise Refused(Refusal.PARAMETER_INVALID, f"a pop gives 1 to {MAX_COUNT} messages, not {count}")
        if not 0 <= invisible_ms <= MAX_INVISIBLE_MS:
            raise Refused(Refusal.PARAMETER_INVALID, f"invisibleTime is {invisible_ms}; 0 to {MAX_INVISIBLE_MS} ms")
        self._bound(topic, reader.group)
        if reader in self._heard:
            self._heard[reader] = self._clock.monotonic()
        wanted = Wanted(
            reader.group, topic, ANY_QUEUE, count, invisible_ms, False, EVERYTHING, True, attempt_id
        )  # fmt: skip
        popped = self._pop(reader, wanted, done)
        if popped.batches:
            return None
        wait_ms = min(wait_ms, MAX_WAIT_MS)
        if wait_ms <= EARLY_MS:
            return PopResult(PopStatus.POLLING_NOT_FOUND, popped)
        if self.waiting.is_full(reader.client, reader.group, ANY_QUEUE):
            return PopResult(PopStatus.POLLING_FULL, popped)
        self._hold(client, reader, wanted, done, popped, wait_ms)
        return None

    def _pop(self, reader: LiteReader, wanted: Wanted, done: PopDone) -> Popped:
        queues = self._ready.of(reader)[:QUEUES_AT_ONCE]
        popped = self._consumption.pop(wanted.of_queues(queues), partial(self._give, wanted, done))
        left = [queue for queue in queues if self._consumption.queues.has_more(wanted.group, queue)]
        self._ready.looked_at(reader, left, set(queues).difference(left))
        return popped

    def _give(self, wanted: Wanted, done: PopDone, popped: Popped, error: StoreError | None) -> None:
        if error is not None:
            done(Refused(Refusal.FAILED, str(error)))
            return
        for batch in popped.batches:
            self._counters.got(wanted.topic, wanted.group, len(batch.offsets), len(batch.data))
        done(PopResult(PopStatus.FOUND, popped))

    def _hold(
        self, client: Client, reader: LiteReader, wanted: Wanted, done: PopDone, popped: Popped, wait_ms: int
    ) -> None:  # fmt: skip
        def resume(expired: bool) -> bool:
            if not client.writable:
                return False
            try:
                found = self._pop(reader, wanted, done)
            except Refused as refusal:
                done(refusal)
                return True
            if found.batches:
                return True
            if expired:
                done(PopResult(PopStatus.POLLING_NOT_FOUND, found))
                return True
            waiter.wake_at = self._opens_at(found)
            return False

        deadline = self._clock.monotonic() + (wait_ms - EARLY_MS) / 1000
        waiter = Waiter(
            client, reader.client, reader.group, ANY_QUEUE, EVERYTHING, deadline, resume, self._opens_at(popped)
        )  # fmt: skip
        self.waiting.hold(waiter)

    def _opens_at(self, popped: Popped) -> float | None:
        if popped.blocked_until is None:
            return None
        return self._clock.monotonic() + (popped.blocked_until - popped.now_ms) / 1000

    # What happens in the store.

    def _arrived_run(self, queue: str, queue_id: int, records: Sequence[Pending]) -> None:
        """Messages became visible. Called for all queues."""
        if is_lite_queue(queue):
            for reader in self.subscriptions.readers(queue):
                self._ready.note(reader, (queue,))
                self._wake(reader)

    def opened(self, queue: str, group: str) -> None:
        """Nothing of a lite topic is in flight for the group any more."""
        for reader in self.subscriptions.readers(queue):
            if reader.group == group:
                self._ready.note(reader, (queue,))
                self._wake(reader)

    def deleted(self, queue: str) -> None:
        """A lite topic is not there any more. Its readers stay: the next message makes it again."""
        for reader in self.subscriptions.readers(queue):
            self._ready.drop(reader, (queue,))
        self._consumption.blocks.forget(queue)

    def _wake(self, reader: LiteReader) -> None:
        self.waiting.wake(reader.client, reader.group)


def _queues(topic: str, lite_topics: Collection[str]) -> list[str]:
    """Raises Refused for a name that no lite topic can have."""
    try:
        for name in lite_topics:
            check_lite_topic(name)
    except MessageIllegal as error:
        raise Refused(Refusal.LITE_TOPIC_ILLEGAL, str(error)) from error
    return [lite_queue(topic, name) for name in lite_topics]
