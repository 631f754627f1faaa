"""The revive topic: check points and acknowledgements are written to it, and the ledger is built from it.

A record counts when it is safe; a check point is in the ledger from the moment it is appended, so that no part of
the topic that holds it can be given up meanwhile. Records of others (Apache's timer delivers its check points when they
are due) are taken in when they appear.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from gantrymq.broker.delivery.delivered import NOWHERE, Delivered, Delivering
from gantrymq.broker.pop.check_point import (
    APPLIED_GROUP,
    CHECK_POINT_TAG,
    REVIVE_GROUP,
    Ack,
    CheckPoint,
    ack_body,
    ack_tag,
    check_point_body,
    decode,
    record_properties,
    revive_topic,
)
from gantrymq.broker.pop.cursors import Cursors
from gantrymq.broker.pop.holds import RESUME_MS
from gantrymq.broker.pop.ledger import Ledger, OpenPoint, PopCounts
from gantrymq.broker.pop.revive import topics_of_copies
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.errors import RemoteProtocolError, StoreError
from gantrymq.message.message import StoredMessage
from gantrymq.protocol.stored_message import scan
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.steady import SteadyTime
from gantrymq.store.dispatch import Pending
from gantrymq.store.message_store import MessageStore
from gantrymq.store.room import Use
from gantrymq.store.values import NewRecord, Placement

log = logging.getLogger("gantrymq.broker")

READ_RECORDS: Final = 1024
"""Records read together at the start."""
READ_BYTES: Final = 1 << 20
LATE_MS: Final = 1000
"""A check point that was stored later than this after its pop was parked in a timer; so are its acknowledgements, which
come when it is due."""
GRACE_MS: Final = 3000
"""How long such a check point waits for them."""

Done: TypeAlias = Callable[[StoreError | None], None]


@dataclass(frozen=True, slots=True)
class Line:
    """A record to write into a revive queue."""

    revive_queue: int
    entry: CheckPoint | Ack


class ReviveLog:
    """Writes to and follows the revive topic; ``changed`` is called when something new can become due."""

    def __init__(
        self, store: MessageStore, offsets: ConsumerOffsets, clock: Clock, cluster: str, broker: str, host: bytes,
        time: SteadyTime, delivered: Delivered | None = None,
    ) -> None:  # fmt: skip
        """``delivered``: the copies that may stand in the log without their acknowledgements; None: there are none."""
        self._store = store
        self._offsets = offsets
        self._clock = clock
        self._time = time
        self._delivered = delivered
        self._torn: list[Line] = []
        """Acknowledgements that a power cut took from copies which are there."""
        self._torn_from = NOWHERE
        if delivered is not None:
            delivered.parts.append(Delivering(lambda flushed: None, lambda: self._torn_from, lambda fields: None))
        self._broker = broker
        self._host = host
        self.topic = revive_topic(cluster)
        self.ledger = Ledger()
        self.counts = PopCounts()
        self.changed: Callable[[], None] = lambda: None
        self._applied: dict[int, int] = {}
        self._own: set[tuple[int, int]] = set()
        """(queue, offset) of records that were written here and have not appeared yet."""
        self._appeared: list[tuple[int, int]] = []
        store.arrivals_of(self.topic).append(self._arrived)
        offsets.saving.append(self._note_progress)

    def now_ms(self) -> int:
        """The time by which check points are due, ms since 1970."""
        return self._time.now_ms()

    def write(self, lines: Sequence[Line], done: Done, before: Sequence[NewRecord] = ()) -> None:
        """Append records, ``before`` in front of them, all in one write; ``done`` is called when they are safe or
        have failed. Raises StoreError or MessageIllegal when the store does not take them; then nothing was done.

        Without ``before`` they are counted: what the broker acknowledges itself is no record of Apache's.
        """
        now = self._time.wall_ms()
        self._store.room.check(Use.COPY)
        placements = self._store.append([*before, *(self._record(line, now) for line in lines)])
        written: list[tuple[Line, Placement, OpenPoint | None]] = []
        for line, placement in zip(lines, placements[len(before) :], strict=True):
            self._own.add((line.revive_queue, placement.queue_offset))
            opened = None
            if isinstance(line.entry, CheckPoint):
                opened = self._open(line.revive_queue, placement.queue_offset, placement.log_offset, line.entry)
            written.append((line, placement, opened))
        self._store.safety.when_safe(placements[-1].end, partial(self._ended, written, done, not before))
        self.changed()

    def _open(
        self, revive_queue: int, queue_offset: int, log_offset: int, point: CheckPoint, *, late: bool = False
    ) -> OpenPoint:  # fmt: skip
        due_at = self._time.ends_ms(log_offset, point.visible_at, point.invisible_time)
        return self.ledger.open(revive_queue, queue_offset, point, late=late, due_at=due_at)

    def _record(self, line: Line, now: int) -> NewRecord:
        entry = line.entry
        if isinstance(entry, CheckPoint):
            tag, body = CHECK_POINT_TAG, check_point_body(entry)
        else:
            tag, body = ack_tag(entry.offsets), ack_body(entry.key, entry.offsets)
        return NewRecord(self.topic, line.revive_queue, body, record_properties(tag, now), now, self._host)

    def _ended(
        self, written: list[tuple[Line, Placement, OpenPoint | None]], done: Done, counted: bool,
        error: StoreError | None,
    ) -> None:  # fmt: skip
        for line, placement, opened in written:
            if counted:
                self.counts.put(line.entry, error is None)
            if error is not None:
                self._own.discard((line.revive_queue, placement.queue_offset))
                if opened is not None:
                    self.ledger.forget(opened)
                continue
            if isinstance(line.entry, Ack):
                self.ledger.ack(line.entry, keep=True)
            self.ledger.passed(line.revive_queue, placement.queue_offset)
        done(error)
        if error is None:
            for line, placement, _ in written:
                self._applied[line.revive_queue] = placement.queue_offset

    # Following what others write.

    def _arrived(self, topic: str, queue_id: int, records: Sequence[Pending]) -> None:
        if topic != self.topic:
            return
        if not self._appeared:
            # Not at once: a record can appear while the append that wrote it is still under way.
            self._clock.call_soon(self._take_in)
        self._appeared += [(queue_id, record[2]) for record in records]

    def _take_in(self) -> None:
        appeared, self._appeared = self._appeared, []
        foreign = False
        for place in appeared:
            if place in self._own:
                self._own.discard(place)
                continue
            entry = self._store.entry(self.topic, *place)
            record = self._store.read(entry.log_offset) if entry is not None else None
            if record is not None:
                self._apply(record)
                foreign = True
        if foreign:
            self.changed()

    def _apply(self, record: StoredMessage, *, at_start: bool = False) -> CheckPoint | None:
        self.ledger.passed(record.queue_id, record.queue_offset)
        try:
            entry = decode(record, self._broker)
        except RemoteProtocolError as error:
            log.error("%s, at log offset %d; it is skipped", error, record.log_offset)
            return None
        if isinstance(entry, Ack):
            self.ledger.ack(entry, keep=True)
        elif entry is not None:
            late = record.store_timestamp - entry.pop_time > LATE_MS
            opened = self._open(record.queue_id, record.queue_offset, record.log_offset, entry, late=late)
            if opened.pending and late:
                self.ledger.postpone(opened, max(opened.due_at, self._time.now_ms()) + GRACE_MS)
            elif opened.pending and at_start and entry.holder:
                self.ledger.postpone(opened, max(opened.due_at, self._time.now_ms() + RESUME_MS))
            return entry
        return None

    # Start and progress.

    def rebuild(self, cursors: Cursors) -> None:
        """Read what the offsets do not say is done. The cursors of groups are moved behind every check point that was
        written after the offsets: what it names comes back by itself, and what was acknowledged never.
        """
        for queue_id in sorted(queue for topic, queue in self._store.queues() if topic == self.topic):
            done = self._offsets.get(REVIVE_GROUP, self.topic, queue_id)
            applied = self._offsets.get(APPLIED_GROUP, self.topic, queue_id)
            if applied is None and done is None:
                applied = -1  # the offsets were never saved since the first pop
            first, end = self._store.queue_range(self.topic, queue_id)
            offset = max(first, 0 if done is None else done + 1)
            if done is not None:
                self.ledger.passed(queue_id, min(done, end - 1))
            while offset < end:
                result = self._store.get(self.topic, queue_id, offset, READ_RECORDS, READ_BYTES)
                if result.next_offset <= offset:
                    break
                for record in scan(result.data):
                    point = self._apply(record, at_start=True)
                    if point is not None and applied is not None and record.queue_offset > applied:
                        cursors.recover((point.group, point.topic, point.queue_id), point.next_offset)
                offset = result.next_offset
            if end:
                self._applied[queue_id] = end - 1
        self._find_torn()
        if len(self.ledger):
            log.info("%d check points of popped messages are open", len(self.ledger))

    def _find_torn(self) -> None:
        """Messages that have copies of their group in the log behind their check points have come back, acknowledged
        or not."""
        delivered, self._delivered = self._delivered, None
        for opened in self.ledger if delivered is not None and delivered.copies else ():
            own = self._store.entry(self.topic, opened.revive_queue, opened.revive_offset)
            if delivered is None or own is None:
                continue
            came_back: list[int] = []
            for offset in sorted(opened.pending):
                place = self._copy_behind(own.log_offset, opened.point, offset, delivered)
                if place is not None:
                    came_back.append(offset)
                    self._torn_from = min(self._torn_from, place)
            if came_back:
                ack = Ack(opened.point.key, tuple(came_back))
                self._torn.append(Line(opened.revive_queue, ack))
                self.ledger.ack(ack)

    def _copy_behind(self, log_offset: int, point: CheckPoint, offset: int, delivered: Delivered) -> int | None:
        """Where a message of a check point has a copy for the same group, behind ``log_offset``."""
        entry = self._store.entry(point.topic, point.queue_id, offset)
        for place in delivered.copies_of(entry.log_offset) if entry is not None else ():
            copy = self._store.read(place) if place > log_offset else None
            if copy is not None and copy.topic in topics_of_copies(point.topic, point.group):
                return place
        return None

    def start(self) -> None:
        """Write the acknowledgements that a power cut took. Until they are safe, the next start finds them, too."""

        def done(error: StoreError | None) -> None:
            if error is None:
                self._torn_from = NOWHERE
            else:
                log.error("acknowledgements of messages that came back are not written: %s", error)

        if self._torn:
            try:
                self.write(self._torn, done)
            except StoreError as error:
                done(error)

    def _note_progress(self) -> None:
        """Commit what of the revive topic is done, to be written together with the offsets it belongs to."""
        for queue_id in self.ledger.revive_queues():
            done = self.ledger.committable(queue_id)
            if done is not None and done > (self._offsets.get(REVIVE_GROUP, self.topic, queue_id) or -1):
                self._offsets.commit(REVIVE_GROUP, self.topic, queue_id, done)
        for queue_id, applied in self._applied.items():
            self._offsets.commit(APPLIED_GROUP, self.topic, queue_id, applied)
