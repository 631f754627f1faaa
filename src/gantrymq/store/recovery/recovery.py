"""Makes a usable store of what a start finds: facts -> case -> where to read the log from -> replay, cut.

The log is the truth. Queues are used as they are up to the position that is known to be good, and rebuilt behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from zlib import crc32

from gantrymq.errors import CorruptRecord
from gantrymq.message.lite_topics import QUEUE_PREFIX
from gantrymq.message.queues import QueueOffset
from gantrymq.message.sizes import SMALLEST_RECORD_BYTES
from gantrymq.store.config import StoreConfig
from gantrymq.store.dispatch import queue_tags_code
from gantrymq.store.files.checkpoint import HEAD_BYTES, Checkpoint, Mark
from gantrymq.store.files.segmented_file import SegmentedFile
from gantrymq.store.log.records import PLACE_BYTES, LogWalk, has_queue_entry, looks_torn, place_of
from gantrymq.store.queues.consume_queue import BLANK_SIZE, ConsumeQueue, Entry
from gantrymq.store.queues.multi_dispatch import NUMBER, further_places
from gantrymq.store.queues.queue_table import QueueTable
from gantrymq.store.recovery.cases import Case, Facts, decide
from gantrymq.store.recovery.lost_places import damaged_records, lost_place
from gantrymq.store.recovery.record_search import RecordSearch

log = logging.getLogger("gantrymq.store")

APACHE_MARGIN_MS = 3000
"""How far before the checkpoint's times Apache's recovery starts. Source: StoreCheckpoint.getMinTimestamp."""
NO_LIMIT = 1 << 62
RECORDS_PER_WRITE = 1 << 18
"""After how many records the entries built so far go to their files, so that they do not fill the memory."""

WRITTEN_AGAIN_AT_ONCE = 1 << 20
"""Bytes."""


@dataclass(slots=True)
class Recovered:
    """What recovery found and did."""

    case: Case
    start: int
    """Log offset from which records were read."""
    end: int
    """Log offset behind the last good record."""
    records: int = 0
    cut_bytes: int = 0
    """Bytes behind the end that were zeroed."""
    quarantined: dict[int, int] = field(default_factory=dict)
    """Ranges of the log that hold no good record, start to end."""
    last_store_timestamp: int = 0
    last_record: int = -1
    """Log offset of the last record read that is visible; -1 when none was."""
    held: int | None = None
    """Log offset of the first record that others have not confirmed: from there on none is in its queue."""

    @property
    def visible(self) -> int:
        """Log offset behind the last record that is in its queue."""
        return self.end if self.held is None else self.held


@dataclass(slots=True)
class Recovery:
    """One start. ``files``: the log's; ``queues``: made, not loaded."""

    config: StoreConfig
    files: SegmentedFile
    queues: QueueTable
    clean: bool
    checkpoint: Checkpoint | None
    mark: Mark | None
    flushed: int
    """A lower bound of what is durable in the log; 0 when unknown."""
    deleted: Mapping[str, int] = field(default_factory=dict)
    """Topic to the log offset before which its records do not count."""
    confirmed: int = NO_LIMIT
    """Others have confirmed everything before this log offset, and perhaps nothing behind it."""

    @property
    def _search(self) -> RecordSearch:
        return RecordSearch(self.files, self.config.mapped_file_size_commit_log)

    def run(self) -> Recovered:
        """Bring log and queues in line. The queues' entries behind ``start`` are in memory only, not written yet."""
        if self.mark is not None and not self._belongs(self.mark):
            self.mark = None
        mark = self.mark
        case = decide(self._facts(mark))
        if case is Case.NO_LOG:
            self._load_queues(0)
        start = self._start(case, mark)
        # Behind an orderly end, and before a mark, everything was visible.
        self.confirmed = NO_LIMIT if self.clean else max(self.confirmed, start)
        start = min([start, *(self._damaged_from(queue, start) for queue in self.queues.queues.values())])
        found = Recovered(case, start, start)
        torn = self._replay(found)
        if found.held is not None and (damaged := max(found.quarantined.values(), default=0)) > found.held:
            # The queue offsets of damaged records are kept free in the queues, which end where something is held.
            log.error("what lies before damage, at log offset %d, counts as confirmed", damaged)
            self.confirmed = damaged
            found = Recovered(case, start, start)
            torn = self._replay(found)
        for queue in self.queues.queues.values():
            self._keep_last_places(queue, found.visible)
        if torn or not self.clean:
            self._cut(found)
            self._make_durable(found)
        return found

    def _facts(self, mark: Mark | None) -> Facts:
        self._load_queues(NO_LIMIT)
        return Facts(
            has_log=bool(self.files.segments),
            has_queues=any(queue.max_offset > queue.start_offset for queue in self.queues.queues.values()),
            clean=self.clean,
            has_mark=mark is not None,
            has_checkpoint=self.checkpoint is not None,
        )

    def _load_queues(self, below: int) -> None:
        for queue in self.queues.queues.values():
            queue.load(below)
            if below == NO_LIMIT:
                continue
            # Entries behind ``below`` may be torn: one whose log offset was lost names a record it does not belong to.
            while (last := queue.last_entry_number()) is not None and not self._is_entry_of(queue, last):
                queue.load(below, last)

    def _is_entry_of(self, queue: ConsumeQueue, queue_offset: QueueOffset) -> bool:
        """Whether the record that an entry names is the one it was made for, as far as the log can tell."""
        entry = queue.entry(queue_offset)
        return entry is not None and self._names_record(queue, queue_offset, entry)

    def _names_record(self, queue: ConsumeQueue, queue_offset: int, entry: Entry) -> bool:
        if entry.log_offset < self.files.start:
            return True
        head = self.files.read(entry.log_offset, PLACE_BYTES)
        size, queue_id, number, own = place_of(head)
        is_further = queue.topic.startswith(QUEUE_PREFIX)
        if (size, own) != (entry.size, entry.log_offset):
            return False
        if not is_further and (queue_id, number) != (queue.queue_id, queue_offset):
            return False
        for _place, parsed, _data, _at in LogWalk(self.files, entry.log_offset, self.files.end):
            if is_further:
                return (queue.topic, queue_offset) in further_places(parsed[6])
            return parsed[1] == queue.topic
        return True  # damaged, but it is there: its queue offset stays taken

    def _damaged_from(self, queue: ConsumeQueue, start: int) -> int:
        """Log offset from which a queue must be rebuilt when it ends at a damaged entry; otherwise ``start``.

        Behind the last valid entry there are zeros, or the entry of a record that is read again anyway. Anything else
        is an entry with flipped bits, or a torn one: the entries behind it would be lost, and their queue offsets would
        be given to other records.
        """
        entry = queue.found_behind()
        if entry is None or entry.size == BLANK_SIZE:
            return start
        if entry.log_offset >= start and self._names_record(queue, queue.max_offset, entry):
            return start
        last = queue.last_entry()
        position = self.files.start if last is None else max(self.files.start, last.log_offset + last.size)
        if position < start:
            log.error(
                "entry %d of queue %d of %s is damaged; the queue is rebuilt from log offset %d on",
                queue.max_offset, queue.queue_id, queue.topic, position,
            )  # fmt: skip
        return min(start, position)

    def _belongs(self, mark: Mark) -> bool:
        """Whether the log is still the one the mark was made for."""
        if not self.files.start <= mark.position <= self.files.end:
            return False
        if mark.last_record < self.files.start:
            return mark.position == self.files.start
        return crc32(self.files.read(mark.last_record, HEAD_BYTES)) == mark.digest

    # ---- where to start

    def _start(self, case: Case, mark: Mark | None) -> int:
        start = self.files.start
        if case is Case.CLEAN:
            return self._behind_queues(mark)
        if case is Case.MARKED and mark is not None:
            start = mark.position
        elif case is Case.APACHE_DIED and self.checkpoint is not None:
            start = self._by_checkpoint(self.checkpoint)
        self._load_queues(start)
        return start

    def _behind_queues(self, mark: Mark | None) -> int:
        """Behind the last record that a queue names; if that is no record, from the start of its file."""
        newest = end = self.files.start
        for queue in self.queues.queues.values():
            entry = queue.last_entry()
            if entry is not None and entry.log_offset + entry.size > end:
                newest, end = entry.log_offset, entry.log_offset + entry.size
        if mark is not None and mark.position > end:
            return mark.position
        if end == self.files.start or self._search.size_at(newest) == end - newest:
            return end
        segment = self.files.segment(min(newest, self.files.end - 1))
        start = segment.base if segment else self.files.start
        self._load_queues(start)
        return start

    def _by_checkpoint(self, checkpoint: Checkpoint) -> int:
        """The newest file that begins at or before the checkpoint's time, as Apache's recovery has it."""
        bound = max(0, min(checkpoint.log_timestamp, checkpoint.queue_timestamp) - APACHE_MARGIN_MS)
        for segment in reversed(self.files.segments):
            for _place, parsed, _data, _at in LogWalk(self.files, segment.base, segment.end):
                if parsed[5] <= bound:
                    return segment.base
                break
        return self.files.start

    # ---- replay

    def _replay(self, found: Recovered) -> bool:
        """Read records to the end of the data and give the queues their entries; whether a torn one is the last."""
        while True:
            walk = LogWalk(self.files, found.end, self.files.end)
            self._dispatch(walk, found)
            found.end = walk.position
            following = self._good_behind(walk)
            if following is None:
                if walk.bad:
                    log.warning("the log ends with a torn record, it is cut there: %s", walk.bad)
                return walk.bad is not None
            reason = walk.bad or CorruptRecord(walk.position, "zeros lie where a record was")
            log.error("%s; the %d bytes up to offset %d are quarantined", reason, following - found.end, following)
            found.quarantined[found.end] = following
            self._keep_places(found.end, following)
            found.end = following

    def _keep_places(self, start: int, end: int) -> None:
        """The next message of a queue must not get the offset of a damaged one: a consumer beyond it would miss it."""
        known = {name.encode() for name, _ in self.queues.queues if not name.startswith(QUEUE_PREFIX)}
        for at, record in damaged_records(self.files, start, end):
            lost = lost_place(record, known)
            if lost is None or at < self.deleted.get(lost.topic, 0):
                continue
            queue = self.queues.queues.get((lost.topic, lost.queue_id))
            if queue is None and lost.queue_offset == 0:
                queue = self.queues.make(lost.topic, lost.queue_id)
            if queue is not None and queue.max_offset == lost.queue_offset:
                queue.leave_out(at)

    def _keep_last_places(self, queue: ConsumeQueue, end: int) -> None:
        """Likewise for records whose topic is another one now: the old entry in the files knows where they were."""
        while (entry := queue.found_behind()) is not None and 0 <= entry.log_offset < end:
            place = (entry.size, queue.queue_id, queue.max_offset, entry.log_offset)
            if place_of(self.files.read(entry.log_offset, PLACE_BYTES)) != place:
                break
            queue.leave_out(entry.log_offset)

    def _dispatch(self, walk: LogWalk, found: Recovered) -> None:
        delays = self.config.delays_ms
        get, make, deleted, confirmed = self.queues.get, self.queues.make, self.deleted.get, self.confirmed
        for place, parsed, _data, _at in walk:
            size, topic, queue_id, queue_offset, sys_flag, stored, text = parsed
            if not 0 <= queue_offset <= place // SMALLEST_RECORD_BYTES:  # so many records there never were before it
                walk.bad, walk.position = CorruptRecord(place, f"a queue offset of {queue_offset} is impossible"), place
                return
            if place >= self.flushed and not self.clean and looks_torn(text):
                walk.bad, walk.position = CorruptRecord(place, "its properties are cut off"), place
                return
            found.records += 1
            if place >= confirmed:
                if found.held is None:
                    found.held = place
                continue
            found.last_store_timestamp = stored
            found.last_record = place
            if has_queue_entry(sys_flag) and place >= deleted(topic, 0):
                queue = get((topic, queue_id)) or make(topic, queue_id)
                tags = queue_tags_code(topic, text, stored, delays)
                queue.add(queue_offset, place, size, tags)
                for name, number in further_places(text):
                    if place >= deleted(name, 0):
                        (get((name, NUMBER)) or make(name, NUMBER)).add(number, place, size, tags)
            if found.records % RECORDS_PER_WRITE == 0:
                for queue in self.queues.queues.values():
                    queue.write_out()

    def _good_behind(self, walk: LogWalk) -> int | None:
        """The place at which durable records continue behind a bad place; None: the log ends here.

        Bad bytes in the durable part are damage, the last record of that part included. Elsewhere they are what a crash
        left of the last writes. Those were not acknowledged, and keeping the second half of a write without the first
        could settle a transaction whose message is lost. So the log ends there.
        """
        durable = walk.position < self.flushed
        if walk.bad is None and (self.clean or not durable):
            return None
        following = self._search.next_behind(walk.position)
        if durable and walk.bad and (following is None or (following > self.flushed and not self.clean)):
            # Zeros before the durable end: the log was copied before the mark was, and really ends here.
            return self.flushed if any(self.files.read(self.flushed - 1, 1)) else None
        if following is None or self.clean or following <= self.flushed:
            return following
        for _place, parsed, _data, _at in LogWalk(self.files, following, self.files.end):
            if self.checkpoint is not None and parsed[5] < self.checkpoint.log_timestamp:
                return following
            break
        return None

    # ---- the end

    def _cut(self, found: Recovered) -> None:
        """Zero everything behind the last good record, so that no reader, Apache's included, takes it for one."""
        found.cut_bytes = self.files.zero_from(found.end)
        if found.cut_bytes:
            log.warning("cut the log at offset %d: %d bytes behind it were zeroed", found.end, found.cut_bytes)
            self.files.sync_directory()

    def _make_durable(self, found: Recovered) -> None:
        """Make durable what a killed process had written and not synced: from now on it is served.

        It is written once more first. After a sync that failed, the kernel takes pages for clean that are on no disk:
        it would sync nothing, and the next loss of power would take what was served until then.
        """
        position = self.flushed or self._last_read_file(found)
        while position < found.end:
            size = min(WRITTEN_AGAIN_AT_ONCE, found.end - position)
            # Not the zeros at the end of a file: they may have no place on the disk yet, and it may be full.
            self.files.write(position, self.files.read(position, size).rstrip(b"\0"))
            position += size
        for segment in self.files.segments:
            if segment.end > self.flushed and segment.base <= found.end:
                segment.file.sync()
        if self.files.segments:
            self.files.sync_directory()  # it may have been killed between making a file and this

    def _last_read_file(self, found: Recovered) -> int:
        """Where nobody noted what is durable, as in a store of Apache's: the start of the last file that was read."""
        segment = self.files.segment(max(found.end - 1, 0))
        return max(found.start, segment.base) if segment is not None else found.end
