"""A pop consumption with a real store. The test sets the time and lets the disk answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.delivery.delivered import Delivered
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.pop.acks import PopAcks
from gantrymq.broker.pop.check_point import Ack
from gantrymq.broker.pop.consumption import PopConsumption
from gantrymq.broker.pop.holds import NOBODY, Hold
from gantrymq.broker.pop.queues import PopChecks
from gantrymq.broker.pop.requests import PopRequests
from gantrymq.broker.pop.values import PopDelivery, Popped, Wanted
from gantrymq.broker.pop.waiting import Waiting
from gantrymq.broker.refusal import Refused
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import Topics
from gantrymq.errors import StoreError
from gantrymq.message.message import StoredMessage
from gantrymq.message.receipt_handle import ReceiptHandle
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.stored_message import pack_host, scan
from gantrymq.runtime.rng import SystemRng
from gantrymq.runtime.steady import SteadyTime
from gantrymq.store.config import FlushDiskType, StoreConfig
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord
from tests.broker.transaction_lab import LabClock, LabDisk

HOST = pack_host("127.0.0.1:30911")
TOPIC, GROUP = "Orders", "CG_lab"


@dataclass
class Given:
    """A popped message as its consumer has it."""

    topic: str
    message: StoredMessage
    handle: ReceiptHandle

    @property
    def body(self) -> str:
        return self.message.body.decode()


@dataclass
class Call:
    """Something that is answered when it is durable."""

    answered: bool = False
    error: StoreError | Refused | None = None
    messages: list[Given] = field(default_factory=list)
    pop_time: int = 0

    @property
    def accepted(self) -> bool:
        return self.answered and self.error is None


class PopLab:
    """One broker's store and pop consumption; ``restart`` and ``crash`` keep the directory."""

    def __init__(
        self, root: Path, *, queues: int = 2, retry_max_times: int = 16, orderly: bool = False, **config: object
    ) -> None:
        self.root = root
        self.orderly = orderly
        self.promoted = False
        self.config = LiveConfig(BrokerConfig.of(store_path_root_dir=str(root), **config))
        self.queues = queues
        self.retry_max_times = retry_max_times
        self.clock = LabClock()
        self.rng = SystemRng(1)
        self.open()

    def open(self) -> None:
        self.disk = LabDisk(self.clock)
        settings = StoreConfig(
            root=str(self.root), flush_disk_type=FlushDiskType.SYNC_FLUSH, mapped_file_size_commit_log=4 << 20,
            mapped_file_size_consume_queue=20_000, max_index_num=2_000, max_hash_slot_num=500,
        )  # fmt: skip
        self.store = MessageStore.open(settings, self.disk, self.clock, HOST)
        self.disk.make_dirs(self.store.path("config"))
        self.topics = Topics(self.config, self.disk, self.clock, self.store.path("config/topics.json"))
        self.topics.ensure(TOPIC, self.queues)
        self.groups = Groups(
            self.disk, self.clock, self.store.path("config/subscriptionGroup.json"), auto_create=True
        )  # fmt: skip
        self.groups.update(
            Group(group_name=GROUP, retry_max_times=self.retry_max_times, consume_message_orderly=self.orderly)
        )
        self.offsets = ConsumerOffsets(self.disk, self.store.path("config/consumerOffset.json"), self.clock)
        self.counters = MessageCounters()
        store = self.store
        self.disk.make_dirs(store.path("gantry"))
        time = SteadyTime(self.clock, lambda: store.appended)
        self.delivered = Delivered.open(store, self.disk, time, promoted=self.promoted)
        self.consumption = PopConsumption(
            self.config, store, self.topics, self.groups, self.offsets, self.clock, self.rng, self.disk, HOST,
            self.counters, self.delivered,
        )  # fmt: skip
        checks = PopChecks(self.config, self.topics, self.groups)
        waiting = Waiting(self.clock, self.config.pop.pop_polling_size, self.config.pop.max_pop_polling_size)
        self.store.arrivals.append(waiting.arrived_run)
        self.consumption.deliveries.opened = waiting.wake
        self.requests = PopRequests(self.config, checks, self.consumption, waiting, self.clock, self.counters, None)
        self.acks = PopAcks(
            checks, self.consumption.deliveries, self.store, self.clock, self.config.identity.broker_name
        )
        self.consumption.rebuild()
        self.delivered.begin()
        self.consumption.start()
        self.clock.run()

    def save(self) -> None:
        """What housekeeping does every few seconds."""
        self.consumption.save_later()
        self.offsets.save_later()
        self.clock.run()

    def note(self) -> None:
        """What is done every two seconds about what was delivered."""
        self.delivered.changed()
        self.delivered.save_later()
        self.clock.run()

    def crash(self) -> None:
        """The process is killed: what was written stays, what was only in memory is gone."""
        self.clock.forget()
        self.store._lock.release()

    def power_cut(self, kept: float) -> None:
        """The machine dies: of what was written since the last sync, the share ``kept`` (0 to 1) made it."""
        flushed, written = self.store.flushed, self.store.written
        end = flushed + round((written - flushed) * kept)
        self.crash()
        for log in sorted((self.root / "commitlog").glob("0*")):
            base = int(log.name)
            if base + log.stat().st_size > end:
                data = log.read_bytes()
                keep = max(end - base, 0)
                log.write_bytes(data[:keep] + bytes(len(data) - keep))

    def stop(self) -> None:
        """An orderly stop, as far as POP has a part in it."""
        self.clock.run()
        self.consumption.close()
        self.offsets.save()
        self.crash()

    # What clients do.

    def send(self, body: str, queue_id: int = 0, tags: str = "A") -> Call:
        call = Call()
        record = NewRecord(TOPIC, queue_id, body.encode(), f"TAGS\x01{tags}\x02", self.clock.wall, HOST)
        try:
            placement = self.store.append([record])[0]
        except StoreError as error:
            return Call(True, error)
        self.store.safety.when_safe(placement.end, lambda error: _answer(call, error))
        self.clock.run()
        return call

    def pop(self, count: int = 32, invisible_ms: int = 60_000, group: str = GROUP, **wanted: object) -> Call:
        call = Call()

        def given(popped: Popped, error: StoreError | None) -> None:
            if error is None:
                call.messages = _messages(popped, invisible_ms, self.config.identity.broker_name)
            call.pop_time = popped.pop_time
            _answer(call, error)

        try:
            popped = self.consumption.pop(
                Wanted(group, TOPIC, -1, count, invisible_ms, **wanted),  # type: ignore[arg-type]
                given,
            )
        except Refused:
            return Call(True, StoreError("refused"))
        if not popped.batches:
            call.answered = True
        self.clock.run()
        return call

    def ack(self, *messages: Given) -> Call:
        call = Call()
        receipts = [
            (item.handle.revive_queue, item.handle.visible_at, Ack(key_of(item), (item.handle.offset,)))
            for item in messages
        ]
        try:
            self.consumption.deliveries.ack(receipts, lambda error: _answer(call, error))
        except Refused:
            return Call(True, StoreError("refused"))
        self.clock.run()
        return call

    def ack_in_order(self, *messages: Given) -> None:
        for item in messages:
            handle = item.handle
            assert self.consumption.deliveries.ack_in_order(
                item.topic, GROUP, handle.queue_id, handle.offset, handle.pop_time
            )

    def change(self, item: Given, invisible_ms: int, hold: Hold = NOBODY) -> tuple[bool, Call]:
        """(whether the delivery was still going on, the call)"""
        call = Call()

        def done(pop_time: int, error: StoreError | None) -> None:
            call.pop_time = pop_time
            _answer(call, error)

        handle = item.handle
        try:
            going_on = self.consumption.deliveries.change(
                item.topic,
                GROUP,
                handle.queue_id,
                handle.offset,
                handle,
                invisible_ms,
                suspend=False,
                done=done,
                hold=hold,
            )
        except Refused:
            return True, Call(True, StoreError("refused"))
        self.clock.run()
        return going_on, call

    def give_up(self, item: Given) -> tuple[bool, Call]:
        """Make a dead letter of a delivery: (whether it went on, the call)."""
        call, handle = Call(), item.handle
        delivery = PopDelivery(GROUP, item.topic, handle.queue_id, handle.offset, str(handle))
        topic = self.topics.ensure(f"%DLQ%{GROUP}", 1)
        letter = NewRecord(topic.topic_name, 0, item.message.body, "", self.clock.wall, HOST)
        try:
            going_on = self.consumption.dead_letters.put(delivery, letter, lambda error: _answer(call, error))
        except Refused as refused:
            return True, Call(True, refused)
        self.clock.run()
        return going_on, call

    def bodies(self, topic: str) -> list[str]:
        """What lies in queue 0 of a topic."""
        result = self.store.get(topic, 0, 0, 10_000, 1 << 24)
        return [message.body.decode() for message in scan(result.data)]


def key_of(item: Given) -> tuple[str, str, int, int, int, str]:
    handle = item.handle
    return (item.topic, GROUP, handle.queue_id, handle.start_offset, handle.pop_time, handle.broker_name)


def _answer(call: Call, error: StoreError | Refused | None) -> None:
    call.answered, call.error = True, error


def _messages(popped: Popped, invisible_ms: int, broker: str) -> list[Given]:
    return [
        Given(
            batch.topic,
            message,
            ReceiptHandle(
                batch.start_offset, popped.pop_time, invisible_ms, popped.revive_queue, batch.kind, broker,
                batch.queue_id, message.queue_offset,
            ),
        )
        for batch in popped.batches
        for message in scan(batch.data)
    ]  # fmt: skip
