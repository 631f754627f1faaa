"""Reads a queue: its entries at once, and neighbouring records with one read of the log.

Source: DefaultMessageStore.getMessage; docs/store.md#reading.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gantrymq.errors import CorruptRecord
from gantrymq.message.sizes import LARGEST_RECORD_BYTES
from gantrymq.protocol.stored_message import properties_text
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.log.records import PLACE_BYTES, are_good, is_good, place_of
from gantrymq.store.queues.consume_queue import BLANK_SIZE, ENTRY, ENTRY_BYTES, ConsumeQueue
from gantrymq.store.recovery.quarantine import Quarantine
from gantrymq.store.values import Boundary, GetResult, GetStatus

LEAST_SCAN_ENTRIES = 800
"""How many entries a filtered read looks at, at least. Source: DefaultMessageStore (16000 bytes)."""
GAP_BYTES = 8192
"""Reading over a gap up to this size is cheaper than a second read."""
SPAN_BYTES = 4 << 20
"""Longest single read of the log."""
READ_ENTRIES = 32
"""How many records are read at once to be looked at; most clients want as many."""
LOOK_BYTES = 4 << 20
"""How much of the log one read looks at for records that are wanted: nobody else is served meanwhile."""
TERM_BYTES = 64
"""To try one term of a selector costs about as much as to read so many bytes, and"""
TERM_SEARCH = 8
"""as an eighth of the properties, in which a term looks for its own one."""


Wants: TypeAlias = Callable[[str], bool]
"""Properties text of a record to whether it is wanted."""
Wanted: TypeAlias = tuple[int, int, int]
"""Of a record to hand out: log offset, size, queue offset."""
Pieces: TypeAlias = dict[int, "bytes | memoryview"]
"""Queue offset, as the entry has it, to the record: the record itself may say another one."""


class QueueReader:
    """Reads records by queue offset. It never hands out a record that fails its checks."""

    def __init__(self, commit_log: CommitLog, opened_end: int, quarantine: Quarantine, trusted_bytes: int) -> None:
        """``opened_end``: where the log ended when the store was opened. ``trusted_bytes``: records that this process
        wrote and behind which less was written are not checked again, as they come from memory."""
        self._log = commit_log
        self._trusted_bytes = trusted_bytes
        self._opened_end = opened_end
        """End of the log when the store was opened; what lies before was written by somebody else."""
        self._quarantine = quarantine

    def get(
        self,
        queue: ConsumeQueue | None,
        offset: int,
        max_count: int,
        max_bytes: int,
        tag_codes: frozenset[int] | None,
        wants: Wants | None = None,
        terms: int = 1,
    ) -> GetResult:
        """See ``MessageStore.get``."""
        if queue is None:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)
        least, most = queue.min_offset(self._log.start), queue.max_offset
        if most == 0:
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, least, most)
        if offset < least:
            return GetResult(GetStatus.OFFSET_TOO_SMALL, least, least, most)
        if offset >= most:
            one = offset == most
            status = GetStatus.OFFSET_OVERFLOW_ONE if one else GetStatus.OFFSET_OVERFLOW_BADLY
            return GetResult(status, offset if one else most, least, most)
        unfiltered = tag_codes is None and wants is None
        window = max_count if unfiltered else max(max_count, LEAST_SCAN_ENTRIES)
        raw = queue.raw(offset, window)
        if not raw:
            return GetResult(GetStatus.OFFSET_FOUND_NULL, offset, least, most)
        if wants is not None:
            next_offset, found = self._look(queue, raw, offset, max_count, max_bytes, wants, terms)
            status = GetStatus.FOUND if found else GetStatus.NO_MATCHED_MESSAGE
            return GetResult(status, next_offset, least, most, len(found), b"".join(found))
        own = offset >= queue.loaded_end
        if tag_codes is None:
            trusted = own and self._is_trusted(raw)
            copied = self._copy(raw, max_bytes) if trusted else self._checked(raw, max_bytes)
            if copied is not None:
                count, data = copied
                return GetResult(GetStatus.FOUND, offset + count, least, most, count, data)
        wanted, passed = self._choose(queue, raw, offset, max_count, max_bytes, tag_codes)
        pieces = self._fetch(queue, wanted, own)
        if pieces:
            return GetResult(GetStatus.FOUND, offset + passed, least, most, len(pieces), b"".join(pieces.values()))
        status = GetStatus.MESSAGE_WAS_REMOVING if wanted else GetStatus.NO_MATCHED_MESSAGE
        return GetResult(status, offset + passed, least, most)

    def _is_trusted(self, raw: bytes) -> bool:
        """Whether all records of these entries were written by this process, not long ago."""
        first = ENTRY.unpack_from(raw)[0]
        return bool(first >= self._opened_end and first >= self._log.written - self._trusted_bytes)

    def _copy(self, raw: bytes, max_bytes: int) -> tuple[int, bytes]:
        """(records, their bytes) for trusted entries without a filter: what consumers read nearly always.

        Records that are neighbours in the log are copied as one piece: one pass over the entries is all the work that
        is done for a single record.
        """
        runs: list[tuple[int, int]] = []
        start = end = ENTRY.unpack_from(raw)[0]
        count = total = 0
        for log_offset, size, _ in ENTRY.iter_unpack(raw):
            total += size
            if total > max_bytes and count:
                break
            if log_offset != end:
                runs.append((start, end))
                start = log_offset
            end = log_offset + size
            count += 1
        runs.append((start, end))
        pieces: list[bytes | memoryview] = []
        at = 0
        while at < len(runs):
            first, last = runs[at]
            stop = at + 1
            while stop < len(runs) and runs[stop][0] - last <= GAP_BYTES and runs[stop][1] - first <= SPAN_BYTES:
                last = runs[stop][1]
                stop += 1
            data = self._log.read(first, last - first)
            if len(data) != last - first:
                raise CorruptRecord(first, f"the log ends inside of what was written up to {last}")
            if stop == at + 1:
                pieces.append(data)
            else:
                view = memoryview(data)
                pieces += [view[low - first : high - first] for low, high in runs[at:stop]]
            at = stop
        return count, pieces[0] if len(pieces) == 1 and isinstance(pieces[0], bytes) else b"".join(pieces)

    def _checked(self, raw: bytes, max_bytes: int) -> tuple[int, bytes] | None:
        """As ``_copy``, for records that have to be checked. None: something here is not as it should be.

        Then ``_choose`` and ``_fetch`` look at each record for itself, and say what is damaged.
        """
        spans: list[list[tuple[int, int]]] = []
        span: list[tuple[int, int]] = []
        log_start, log_end = self._log.start, self._log.written
        start = end = -GAP_BYTES - 1
        count = total = 0
        for log_offset, size, _ in ENTRY.iter_unpack(raw):
            if log_offset < log_start or not 0 < size <= log_end - log_offset:
                return None
            total += size
            if total > max_bytes and count:
                break
            if not 0 <= log_offset - end <= GAP_BYTES or log_offset + size - start > SPAN_BYTES:
                span = []
                spans.append(span)
                start = log_offset
            span.append((log_offset, size))
            end = log_offset + size
            count += 1
        pieces: list[bytes | memoryview] = []
        for span in spans:
            first, (last, size) = span[0][0], span[-1]
            data = self._log.read(first, last + size - first)
            if not are_good(data, first, span):
                return None
            if len(spans) == 1 and len(data) == sum([size for _, size in span]):
                return count, data
            view = memoryview(data)
            pieces += [view[at - first : at - first + size] for at, size in span]
        return count, b"".join(pieces)

    def _look(
        self, queue: ConsumeQueue, raw: bytes, offset: int, max_count: int, max_bytes: int, wants: Wants, terms: int
    ) -> tuple[int, list[bytes | memoryview]]:  # fmt: skip
        """(queue offset to go on with, records that are wanted) of the entries from ``offset`` on."""
        found: list[bytes | memoryview] = []
        total = looked = 0
        passed = 0
        while passed * ENTRY_BYTES < len(raw) and looked < LOOK_BYTES:
            part = raw[passed * ENTRY_BYTES : (passed + READ_ENTRIES) * ENTRY_BYTES]
            wanted, count = self._choose(queue, part, offset + passed, READ_ENTRIES, LOOK_BYTES, None)
            for place, record in self._fetch(queue, wanted, offset >= queue.loaded_end).items():
                text = properties_text(record)
                looked += len(record) + terms * (TERM_BYTES + len(text) // TERM_SEARCH)
                if wants(text):
                    total += len(record)
                    if found and total > max_bytes:
                        return place, found
                    found.append(record)
                if len(found) == max_count or looked >= LOOK_BYTES:
                    return place + 1, found
            passed += count
        return offset + passed, found

    def _choose(
        self,
        queue: ConsumeQueue,
        raw: bytes,
        offset: int,
        max_count: int,
        max_bytes: int,
        tag_codes: frozenset[int] | None,
    ) -> tuple[list[Wanted], int]:
        """The records to hand out of the entries from ``offset`` on, and how many entries that covers."""
        wanted: list[Wanted] = []
        passed = 0
        total = 0
        log_start, log_end = self._log.start, self._log.written
        for log_offset, size, tags_code in ENTRY.iter_unpack(raw):
            if (tag_codes is None or tags_code in tag_codes) and size != BLANK_SIZE and log_offset >= log_start:
                if not 0 < size <= log_end - log_offset:  # bits of the entry turned over
                    self._quarantine.entry(queue, offset + passed, log_offset, size)
                    passed += 1
                    continue
                if total and total + size > max_bytes:
                    break
                total += size
                wanted.append((log_offset, size, offset + passed))
                if len(wanted) == max_count:
                    passed += 1
                    break
            passed += 1
        return wanted, passed

    def _fetch(self, queue: ConsumeQueue, wanted: list[Wanted], own: bool) -> Pieces:
        """The records, without those that are bad. ``own``: this process made the entries."""
        pieces: Pieces = {}
        at = 0
        while at < len(wanted):
            first = last_end = wanted[at][0]
            stop = at
            while stop < len(wanted):
                log_offset, size, _number = wanted[stop]
                near = 0 <= log_offset - last_end <= GAP_BYTES and log_offset + size - first <= SPAN_BYTES
                if stop > at and not near:
                    break
                last_end = log_offset + size
                stop += 1
            self._take(queue, pieces, wanted[at:stop], first, last_end, own)
            at = stop
        return pieces

    def _take(self, queue: ConsumeQueue, pieces: Pieces, span: list[Wanted], first: int, end: int, own: bool) -> None:
        data = self._log.read(first, end - first)
        view = memoryview(data)
        if (
            own
            and first >= self._opened_end
            and first >= self._log.written - self._trusted_bytes
            and len(data) == end - first
        ):
            pieces.update((number, view[offset - first : offset - first + size]) for offset, size, number in span)
            return
        for offset, size, number in span:
            if is_good(data, offset - first, offset, size):
                pieces[number] = view[offset - first : offset - first + size]
            else:
                self._blame(queue, number, offset, size)

    def _blame(self, queue: ConsumeQueue, number: int, log_offset: int, size: int) -> None:
        """Report the damage: the record, if its head shows that it belongs to the entry; otherwise the entry."""
        head = self._log.read(log_offset, PLACE_BYTES)
        own_size, queue_id, queue_offset, own = place_of(head)
        whole = self._log.read(log_offset, own_size) if 0 < own_size <= LARGEST_RECORD_BYTES else b""
        its_head = own == log_offset or (queue_id, queue_offset) == (queue.queue_id, number)
        if its_head and not is_good(whole, 0, log_offset, own_size):
            self._quarantine.record(log_offset)
        else:
            self._quarantine.entry(queue, number, log_offset, size)

    # ---- times

    def store_time(self, queue: ConsumeQueue, offset: int) -> int | None:
        """Store timestamp in ms of the message at a queue offset; None when there is none."""
        entry = queue.entry(offset)
        if entry is None or not self._log.start <= entry.log_offset < self._log.written:
            return None
        head = self._log.read(entry.log_offset, 76)
        if len(head) < 76:
            return None
        at = 68 if head[39] & 0x10 else 56
        return int.from_bytes(head[at : at + 8], "big", signed=True)

    def offset_by_time(self, queue: ConsumeQueue, timestamp_ms: int, boundary: Boundary) -> int:
        """Source: ConsumeQueue.binarySearchInQueueByTime (5.x)."""
        least, most = queue.min_offset(self._log.start), queue.max_offset
        if boundary is Boundary.LOWER:
            return self._first(queue, least, most, timestamp_ms)
        return max(least, self._first(queue, least, most, timestamp_ms + 1) - 1) if most > least else least

    def _first(self, queue: ConsumeQueue, low: int, high: int, timestamp_ms: int) -> int:
        """First offset in [low, high) stored at or after the time; ``high`` when none is."""
        while low < high:
            middle = probe = (low + high) // 2
            time = self.store_time(queue, probe)
            while time is None and probe + 1 < high:  # an entry that stands for no message
                probe += 1
                time = self.store_time(queue, probe)
            if time is None or time >= timestamp_ms:
                high = middle
            else:
                low = probe + 1
        return low
