"""Finds records: one by its position, all in the order of the log, and those with a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gantrymq.errors import RemoteProtocolError
from gantrymq.message.message import StoredMessage
from gantrymq.protocol.stored_message import decode_record
from gantrymq.store.dispatch import Dispatch
from gantrymq.store.index.index import FOREVER_MS, QUERY_LIMIT, Index, has_key
from gantrymq.store.linked_records import LinkedRecords
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.log.records import LogWalk, has_queue_entry
from gantrymq.store.queues.consume_queue import Entry
from gantrymq.store.queues.queue_table import QueueTable
from gantrymq.store.recovery.quarantine import Quarantine

HEAD_READ_BYTES: Final = 4096
"""First guess at the size of a record that is read alone."""


class Lookup:
    """Answers about visible records of an open store."""

    def __init__(
        self,
        commit_log: CommitLog,
        queues: QueueTable,
        quarantine: Quarantine,
        dispatch: Dispatch,
        index: Index | None,
        linked: LinkedRecords,
    ) -> None:
        self._log = commit_log
        self._queues = queues
        self._quarantine = quarantine
        self._dispatch = dispatch
        self._index = index
        self._linked = linked

    def read(self, log_offset: int) -> StoredMessage | None:
        """The visible record that starts exactly at ``log_offset``; None when none does.

        That a record starts there is what its queue says, not the bytes: those could be part of a body.
        """
        message = self._decode(log_offset)
        if message is None or not has_queue_entry(message.sys_flag):
            return None
        entry = self.entry(message.topic, message.queue_id, message.queue_offset)
        if entry is None or entry.log_offset != log_offset or entry.size != message.size:
            return None
        return message

    def _decode(self, log_offset: int) -> StoredMessage | None:
        if not self._log.start <= log_offset < self._dispatch.position:
            return None
        data = self._log.read(log_offset, HEAD_READ_BYTES)
        size = int.from_bytes(data[:4], "big")
        if size > self._dispatch.position - log_offset:
            return None
        if size > len(data):
            data = self._log.read(log_offset, size)
        try:
            message = decode_record(data, 0)
        except RemoteProtocolError:
            return None
        return message if message.log_offset == log_offset else None

    def scan(
        self, from_offset: int, to_offset: int | None = None, *, only: int | None = None, waiting: bool = False
    ) -> Iterator[StoredMessage]:
        """Visible records in log order that start before ``to_offset``; ``from_offset`` must be the start of one.
        ``waiting``: also those that are written and not visible yet.

        Bad ones are left out. ``only``: records of one transaction type (``message.flags``); ten times as fast when
        they are few.
        """
        position = max(from_offset, self._log.start)
        end = self._log.written if waiting else self._dispatch.position
        stop = end if to_offset is None else min(to_offset, end)
        while position < stop:
            walk = LogWalk(self._log.files, position, end, only=only)
            for place, _parsed, data, at in walk:
                if place >= stop:
                    return
                yield decode_record(data, at, check=False)
            position = end if walk.position >= end else self._quarantine.behind(walk.position, end)

    def query(
        self, topic: str, key: str, max_num: int, begin_ms: int = 0, end_ms: int = FOREVER_MS
    ) -> list[StoredMessage]:
        """Visible messages with ``key`` as unique key or among their keys, stored in the time given, newest first.

        At most ``max_num`` and 64. Right after a crash a large index may still be incomplete.
        """
        found: dict[int, StoredMessage] = {}
        if self._index is None:
            return []
        for log_offset in self._index.offsets(topic, key, begin_ms, end_ms):
            message = self.read(log_offset) if log_offset not in found else None
            if message is not None and message.topic == topic and has_key(message, key):
                if begin_ms <= message.store_timestamp <= end_ms:
                    found[log_offset] = message
                if len(found) >= min(max_num, QUERY_LIMIT):
                    break
        return list(found.values())

    def copies(self, from_offset: int) -> Iterator[tuple[int, int]]:
        """(place of the record that it was made of, its own place) of each visible copy from ``from_offset`` on, in the
        order of the log. Copies are ordinary messages that were stored elsewhere before, see ``broker.delivery``.
        """
        return ((target - 1, place) for target, place in self._linked.copies(from_offset))

    def finals(self, from_offset: int) -> Iterator[tuple[int, int]]:
        """(place of the half message, its own place) of each visible committed message from ``from_offset`` on, in the
        order of the log, as its field says it."""
        return self._linked.finals(from_offset)

    def entry(self, topic: str, queue_id: int, queue_offset: int) -> Entry | None:
        """Where a message of a queue lies; None when it is not there (any more)."""
        queue = self._queues.get((topic, queue_id))
        entry = queue.entry(queue_offset) if queue is not None and queue_offset >= 0 else None
        return entry if entry is not None and entry.log_offset >= self._log.start else None
