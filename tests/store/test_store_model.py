"""The store against a plain list, with power cuts at any operation, torn writes, a full disk and restarts.

What must hold: everything acknowledged is there, byte by byte and at its place; of the rest at most a beginning, in
order, has survived; nothing else. Queues, index and log always agree.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gantrymq.errors import DiskFull, StoreError, StoreUnavailable
from gantrymq.simulation.world.disk import PowerCut, SimDisk
from gantrymq.store.config import FlushDiskType
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord, Placement
from tests.support.places import open_store, record, small
from tests.support.sim_clock import SimClock, settle

TOPICS = ("Orders", "Shipping")
BODIES = st.binary(min_size=1, max_size=300)


@dataclass
class Sent:
    record: NewRecord
    placement: Placement
    acknowledged: bool = False
    failed: bool = False
    key: str = field(default="")


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.runner.get_loop().set_exception_handler(lambda _loop, _context: None)  # the power cuts
        self.sent: list[Sent] = []
        self.ghosts: list[Sent] = []
        """Refused because the disk was full. Their bytes are zeroed, but a power cut may forget that, too."""
        self.keys = 0
        self.mode = FlushDiskType.SYNC_FLUSH

    @initialize(seed=st.integers(0, 1 << 32), mode=st.sampled_from(FlushDiskType))
    def begin(self, seed: int, mode: FlushDiskType) -> None:
        self.mode = mode
        self.disk = SimDisk(seed)
        self.clock = SimClock()
        self.store = self._open()

    def _open(self) -> MessageStore:
        async def opening() -> MessageStore:
            config = small(
                "/data/store", mapped_file_size_commit_log=2048, mapped_file_size_consume_queue=100, max_index_num=12,
                max_hash_slot_num=5, flush_disk_type=self.mode,
            )  # fmt: skip
            return open_store(config, self.disk, self.clock)

        return self.runner.run(opening())

    # ---- what a broker does

    @rule(
        places=st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 1), BODIES), min_size=1, max_size=3),
        turns=st.integers(0, 2),
    )
    def append(self, places: list[tuple[str, int, bytes]], turns: int) -> None:
        records = []
        for topic, queue, body in places:
            self.keys += 1
            records.append(record(topic, queue, body, properties=f"KEYS\x01k{self.keys} all\x02TAGS\x01t\x02"))

        async def appending() -> None:
            try:
                placements = self.store.append(records)
            except (StoreUnavailable, PowerCut):
                return
            group = [Sent(new, place) for new, place in zip(records, placements, strict=True)]
            for sent in group:
                sent.key = sent.record.properties[5:].split(" ")[0]
            self.sent += group
            self.store.safety.when_safe(placements[-1].end, lambda error: self._answered(group, error))
            for _ in range(turns):
                await asyncio.sleep(0)

        self.runner.run(appending())

    def _answered(self, group: list[Sent], error: StoreError | None) -> None:
        for sent in group:
            assert not sent.acknowledged and not sent.failed
            sent.acknowledged = error is None
            sent.failed = error is not None
        if isinstance(error, DiskFull):  # nothing of it is stored, its places are given again
            self.ghosts += [sent for sent in self.sent if sent.failed]
            self.sent = [sent for sent in self.sent if not sent.failed]

    @rule()
    def settle(self) -> None:
        self.runner.run(settle())

    @rule(seconds=st.sampled_from([0.5, 1.0, 6.0]))
    def time_passes(self, seconds: float) -> None:
        with contextlib.suppress(PowerCut):
            self.runner.run(self.clock.advance(seconds))

    # ---- what goes wrong

    @rule(operations=st.integers(0, 40))
    def power_will_fail(self, operations: int) -> None:
        self.disk.operations_left = operations

    @rule(again=st.integers(0, 3), operations=st.integers(0, 60))
    def power_cut(self, again: int, operations: int) -> None:
        """Off and on; recovery itself may be cut off, too."""
        for _ in range(again):
            self.disk = self.disk.power_cut()
            self.disk.operations_left = operations
            try:
                self._open()
            except PowerCut:
                continue
        self.disk = self.disk.power_cut()
        self.disk.operations_left = None
        self.store = self._open()
        self._compare_survivors(crashed=True)

    @rule()
    def process_is_killed(self) -> None:
        self.disk = self.disk.process_dies()
        self.store = self._open()
        self._compare_survivors(crashed=True)

    def _compare_survivors(self, *, crashed: bool) -> None:
        """All that was acknowledged, and no record that was never sent; one that failed may be there after a crash."""
        candidates = {(s.placement.log_offset, s.record.body, s.key): s for s in [*self.ghosts, *self.sent]}
        found = []
        for message in self.store.scan(0):
            key = message.properties_text[5:].split(" ")[0]
            found.append(candidates[message.log_offset, message.body, key])
            assert found[-1].placement.queue_offset == message.queue_offset
        kept = {id(sent) for sent in found}
        if self.mode is FlushDiskType.SYNC_FLUSH or not crashed:
            assert all(id(sent) in kept for sent in self.sent if sent.acknowledged)
        if not self.ghosts:
            assert found == self.sent[: len(found)]
        for sent in found:
            sent.acknowledged, sent.failed = True, False
        self.sent = found
        self.ghosts = []

    @precondition(lambda self: not self.disk._off and self.disk.operations_left is None)
    @rule(room=st.integers(0, 400))
    def disk_fills_up(self, room: int) -> None:
        self.disk.free_bytes = room

    @rule()
    def disk_has_space(self) -> None:
        self.disk.free_bytes = None

    @precondition(lambda self: not self.disk._off and self.disk.operations_left is None)
    @rule()
    def restart(self) -> None:
        self.disk.free_bytes = None

        async def restarting() -> None:
            await self.store.close()

        self.runner.run(restarting())
        assert all(sent.acknowledged for sent in self.sent)
        self.store = self._open()
        self._compare_survivors(crashed=False)

    # ---- what always holds

    @invariant()
    def everything_agrees(self) -> None:
        if not hasattr(self, "store") or self.disk._off:
            return
        store = self.store
        assert store.flushed <= store.written <= store.appended
        visible = [sent for sent in self.sent if sent.placement.end <= store.max_log_offset]
        assert [m.log_offset for m in store.scan(0)] == [sent.placement.log_offset for sent in visible]
        for topic in TOPICS:
            for queue in (0, 1):
                self._compare_queue(
                    store, [s for s in visible if (s.record.topic, s.record.queue_id) == (topic, queue)]
                )

    def _compare_queue(self, store: MessageStore, wanted: list[Sent]) -> None:
        for number, sent in enumerate(wanted):
            assert sent.placement.queue_offset == number
        if wanted:
            topic, queue = wanted[0].record.topic, wanted[0].record.queue_id
            assert store.queue_range(topic, queue) == (0, len(wanted))
            answer = store.get(topic, queue, 0, 1000, 1 << 20)
            assert (answer.count, answer.next_offset) == (len(wanted), len(wanted))
            assert all(sent.record.body in answer.data for sent in wanted)

    @precondition(
        lambda self: self.disk.operations_left is None and not self.disk._off and self.disk.free_bytes is None
    )
    @rule()
    def every_key_is_found(self) -> None:
        visible = [sent for sent in self.sent if sent.placement.end <= self.store.max_log_offset]
        for sent in visible[-20:]:
            found = self.store.query(sent.record.topic, sent.key, 10)
            assert [m.log_offset for m in found] == [sent.placement.log_offset]
        for topic in TOPICS:
            wanted = [sent.placement.log_offset for sent in visible if sent.record.topic == topic]
            assert [m.log_offset for m in self.store.query(topic, "all", 64)] == wanted[::-1][:64]

    def teardown(self) -> None:
        self.runner.close()


TestStoreMachine: Any = pytest.mark.slow(StoreMachine.TestCase)
TestStoreMachine.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
