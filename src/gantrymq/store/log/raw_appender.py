"""Bytes of another broker's log, put into this one at exactly their places, so that both logs are equal byte for byte.

They come in pieces that are cut anywhere. Whole records are checked, get their place in queues and index as those that
are made here, and are written at the end of the turn. The rest of a piece waits in memory for the next one, and is not
counted: whoever says how far this log reaches says where its last whole record ends.
"""

from __future__ import annotations

from typing import Final

from gantrymq.errors import CorruptRecord, StoreError
from gantrymq.message import flags
from gantrymq.message.message_types import DELAY, TRANSACTION, plain_type, type_in
from gantrymq.message.sizes import LARGEST_RECORD_BYTES, SMALLEST_RECORD_BYTES
from gantrymq.protocol.stored_message import BLANK_MAGIC, read_size_and_magic
from gantrymq.store.dispatch import Dispatch, Pending, further_entry, queue_tags_code
from gantrymq.store.log.appender import Appender
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.log.records import END_MARK_BYTES, LogWalk, has_queue_entry, made_of, parse
from gantrymq.store.log.writer import LogWriter
from gantrymq.store.queues.consume_queue import ConsumeQueue
from gantrymq.store.queues.deleted import DeletedTopics
from gantrymq.store.queues.multi_dispatch import NUMBER, further_places
from gantrymq.store.queues.queue_table import QueueTable


class RawAppender:
    """Takes the bytes while the store follows another one (``LogWriter.follow``)."""

    def __init__(
        self, writer: LogWriter, commit_log: CommitLog, queues: QueueTable, dispatch: Dispatch, appender: Appender,
        deleted: DeletedTopics, delays_ms: tuple[int, ...],
    ) -> None:  # fmt: skip
        """``deleted``: the topics of which older records do not count."""
        self._writer = writer
        self._log: Final = commit_log
        self._queues = queues
        self._dispatch = dispatch
        self._appender = appender
        self._deleted = deleted
        self._delays_ms = delays_ms
        self._rest = b""
        """The beginning of a record, or of the end of a file, whose other part has not come yet, and"""
        self._rest_place = 0
        """where it belongs."""
        self.held = False
        """Whether nothing is taken at the moment, because the log is being cut."""

    @property
    def next_place(self) -> int:
        """Log offset of the next piece."""
        if self._rest and self._rest_place != self._log.appended:
            self._rest = b""  # what was before it could not be written
        return self._log.appended + len(self._rest)

    def forget_rest(self) -> None:
        """The next piece begins where the last whole record ends."""
        self._rest = b""

    def append(self, place: int, data: bytes) -> None:
        """See ``MessageStore.append_raw``."""
        writer = self._writer
        if not writer.follows or self.held:
            raise StoreError("bytes of another log are taken only while the store follows it")
        if writer.final is not None:
            writer.check_refusal()
        if place != self.next_place and not self._begins_at(place):
            raise StoreError(f"the next bytes of the log belong to offset {self.next_place}, not to {place}")
        if self._rest:
            data = self._rest + data
            self._rest = b""
        at = self._take(data)
        self._rest, self._rest_place = data[at:], self._log.appended
        if self._log.appended > self._log.written:
            writer.appended()

    def _begins_at(self, place: int) -> bool:
        """Whether an empty log can begin there: the other one may have deleted its first files. It does then."""
        if self._rest or not self._log.begin_at(place):
            return False
        self._dispatch.position = place
        return True

    def hold(self, position: int, end: int) -> None:
        """Follow the records from ``position`` on that recovery found in the log, and that nobody has confirmed."""
        while position < end:
            walk = LogWalk(self._log.files, position, end)
            for place, _parsed, data, at in walk:
                record = self._pending(data, at, place)
                self._dispatch.add(record)
                self._appender.saw(record[7])
            if walk.position == position:
                raise CorruptRecord(position, "recovery has read a record there")
            position = walk.position

    def _take(self, data: bytes) -> int:
        """Append the whole records; how many bytes that is. Raises CorruptRecord, DiskFull."""
        commit_log = self._log
        if commit_log.limit == 0 and len(data) >= END_MARK_BYTES:
            commit_log.begin_first_file()
        at = taken = 0
        records: list[Pending] = []
        try:
            while at + END_MARK_BYTES <= len(data):
                place = commit_log.appended + at - taken
                size, magic = read_size_and_magic(data, at)
                end = commit_log.end_of_file(place)
                if magic == BLANK_MAGIC and size == end - place and size <= LARGEST_RECORD_BYTES:
                    if at + size > len(data):
                        break
                    self._add(data[taken:at], records)
                    records = []
                    taken = at  # they are in the log, whatever becomes of the end of the file
                    commit_log.end_file(data[at : at + size])
                    at = taken = at + size
                    continue
                if not SMALLEST_RECORD_BYTES <= size <= min(LARGEST_RECORD_BYTES, end - place - END_MARK_BYTES):
                    raise CorruptRecord(place, f"a size of {size} bytes is impossible")
                if at + size > len(data):
                    break
                first = self._pending(data, at, place)
                records.append(first)
                records += self._further(first)
                at += size
        finally:
            if records:
                self._add(data[taken:at], records)
        return at

    def _add(self, data: bytes, records: list[Pending]) -> None:
        """Put whole records of one file into the log."""
        if not records:
            return
        self._log.add(data)
        self._dispatch.add_all(records)
        self._appender.saw(records[-1][7])

    def _pending(self, data: bytes, at: int, place: int) -> Pending:
        """What is to be followed of a record. Raises CorruptRecord."""
        size, topic, queue_id, queue_offset, sys_flag, stored, text = parse(data, at, place)
        if not 0 <= queue_offset <= place // SMALLEST_RECORD_BYTES:
            raise CorruptRecord(place, f"a queue offset of {queue_offset} is impossible")
        queue = None
        if has_queue_entry(sys_flag) and place >= self._deleted.positions.get(topic, 0):
            queue = self._queue(topic, queue_id, queue_offset, place)
        if sys_flag & flags.TRANSACTION_MASK:
            kind = TRANSACTION
        else:
            kind = DELAY if made_of(data, at) else type_in(topic) or plain_type(text)
        tags = queue_tags_code(topic, text, stored, self._delays_ms)
        return (place + size, queue, queue_offset, place, size, tags, text, stored, topic, None, kind)

    def _further(self, first: Pending) -> list[Pending]:
        """The further places of a record. Raises CorruptRecord."""
        end, queue, _, place, _, tags, text, stored, _, _, _ = first
        found: list[Pending] = []
        for name, number in further_places(text) if queue is not None else ():
            if place < self._deleted.positions.get(name, 0):
                continue
            further = self._queue(name, NUMBER, number, place)
            if further is not None:
                found.append(further_entry(end, further, number, place, stored, tags))
        return found

    def _queue(self, topic: str, queue_id: int, queue_offset: int, place: int) -> ConsumeQueue | None:
        """The queue, in which the place of the record is taken now; None when it has another record there, as behind
        the deletion of a topic, which recovery ignores as well. Raises CorruptRecord when records are missing."""
        queue = self._queues.get((topic, queue_id)) or self._queues.make(topic, queue_id)
        if queue_offset > queue.next_offset:
            if queue.next_offset != queue.max_offset:
                where = f"{topic}/{queue_id}"
                raise CorruptRecord(place, f"it is {queue_offset} of {where}, where {queue.next_offset} follows")
            queue.fill_to(queue_offset, place)  # the beginning of a queue that was deleted, or damaged records
        elif queue_offset < queue.next_offset:
            return None
        queue.next_offset = queue_offset + 1
        return queue
