"""From the log's memory to the disk: write at the end of a turn, sync; and what if one of them fails."""

from __future__ import annotations

import logging
from collections.abc import Callable

from gantrymq.errors import DiskFull, StoreError, StoreUnavailable, TooManyOpenFiles
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.disk import Disk
from gantrymq.store.config import FlushDiskType, StoreConfig
from gantrymq.store.files.checkpoint import MarkFile
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.log.flush import Done, Flusher
from gantrymq.store.log.safety import LogSafety
from gantrymq.store.room import Reason, Room

log = logging.getLogger("gantrymq.store")

BUFFER_LIMIT_BYTES = 4 << 20
"""Appended bytes that are written at once instead of at the end of the loop's turn."""


class LogWriter:
    """Writes and syncs what is appended to the log, and says when nothing more may be appended. ``changed`` is called
    after every write that succeeded."""

    def __init__(
        self,
        config: StoreConfig,
        disk: Disk,
        room: Room,
        clock: Clock,
        commit_log: CommitLog,
        safety: LogSafety,
        mark_file: MarkFile,
        changed: Callable[[], None],
    ) -> None:
        self._config = config
        self.room = room
        commit_log.make_room = room.make_room
        self._clock = clock
        self._log = commit_log
        self._safety = safety
        self._mark_file = mark_file
        self._changed = changed
        self._sync_first = config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._flusher = Flusher(disk, commit_log, self._sync_ended)
        self._flush_timer: Timer | None = None
        self._turn_armed = False
        self.unwritten = 0
        """Appends since the last write."""
        self.closed: StoreUnavailable | None = None
        """Why no append is taken: ``final``, or the store follows another one."""
        self.final: StoreUnavailable | None = None
        """Why the store will never take an append again. A full disk is no such reason: ``room`` says who may write."""
        self.follows = False
        """Whether the log is that of another store, whose bytes are appended, and no others."""

    def appended(self) -> None:
        """One more append is in the log's memory: it is written at the end of the loop's turn, or now when there is
        too much. Raises the error of a write that is made now."""
        self.unwritten += 1
        if not self._turn_armed:
            self._turn_armed = True
            self._clock.call_soon(self._end_turn)
        if self._log.appended - self._log.written > BUFFER_LIMIT_BYTES:
            error = self.write_out()
            if error is not None:
                raise error

    # ---- refusal

    def check_refusal(self) -> None:
        """Raise when nothing is written any more, or nothing of our own."""
        if self.closed is not None:
            self.room.refused["any", Reason.FAILED.value] += 1
            raise self.closed

    def stop(self, reason: StoreUnavailable) -> None:
        """Refuse appends for good."""
        self.closed = self.final = self._safety.stopped = reason

    def follow(self, reason: StoreUnavailable) -> None:
        """Refuse appends that are made here, until ``lead``."""
        self.follows = True
        self.closed = self.final or reason

    def lead(self) -> None:
        """Take appends that are made here, and no others."""
        self.follows = False
        self.closed = self.final

    # ---- write

    def _end_turn(self) -> None:
        self._turn_armed = False
        self.write_out()

    def write_out(self) -> StoreUnavailable | None:
        """One write of everything appended; then a sync (SYNC_FLUSH) or its timer (ASYNC_FLUSH). The error, if any."""
        commit_log = self._log
        self.unwritten = 0
        if commit_log.appended == commit_log.written:
            return None
        size = commit_log.appended - commit_log.written
        if self.room.tight:
            self.room.prepare(size)
        try:
            commit_log.write_out()
        except (StoreError, OSError) as error:
            return self._write_failed(error, size)
        position = commit_log.written
        if self._sync_first:
            self._flusher.start()
        else:
            self._safety.stored_here(position)
            if self._flush_timer is None:
                self._flush_timer = self._clock.call_later(self._config.flush_interval_commit_log / 1000, self._flush)
        self._safety.written(position)
        self.room.wrote(size)
        self._changed()
        return None

    def _write_failed(self, error: StoreError | OSError, size: int) -> StoreUnavailable:
        """Nothing of the write is stored: positions and queue offsets are reset, and all waiting callers are told."""
        log.error("writing the log failed; nothing of it was acknowledged: %s", error)
        if isinstance(error, DiskFull):
            self.room.failed(size)
        if isinstance(error, DiskFull | TooManyOpenFiles):
            self._safety.taken_back(self._log.written, error)
            self._flusher.start()  # the zeros over its beginning
            return error
        reason = StoreUnavailable(f"{error}; check the disk, then start the broker again")
        self.stop(reason)
        self._safety.taken_back(self._log.written, reason)
        return reason

    # ---- sync

    def _flush(self) -> None:
        self._flush_timer = None
        self._flusher.start()

    def _sync_ended(self, error: OSError | StoreError | None) -> None:
        """After every sync: start the next, and say what is durable now."""
        if error is not None:
            self._sync_failed(error)
            return
        position = self._log.flushed
        if self._sync_first:
            self._flusher.start()
            self._safety.stored_here(position)
        elif self._flush_timer is None and self._log.dirty:
            self._flush_timer = self._clock.call_later(self._config.flush_interval_commit_log / 1000, self._flush)
        self._safety.synced(position)
        try:
            self._mark_file.note_flushed(position)
        except StoreError as failure:
            log.warning("the durable position could not be noted; recovery would read more: %s", failure)

    def _sync_failed(self, error: OSError | StoreError) -> None:
        """Final: the kernel may have dropped the pages, so that a later sync would succeed and mean nothing."""
        reason = StoreUnavailable(
            f"a sync of the log failed ({error}); what was written since the previous sync may be lost, so the store "
            "accepts no more writes. Check the disk, then start the broker again"
        )
        log.critical("%s", reason)
        self.stop(reason)
        self._log.forget_appended()
        self._safety.taken_back(self._log.flushed if self._sync_first else self._log.written, reason)
        self._safety.sync_failed(self._log.flushed, reason)

    def sync_everything(self, done: Done) -> None:
        """Write and sync everything appended so far, whatever the mode, then call ``done``."""
        self.write_out()
        self._safety.when_synced(done)
        if self.final is None:
            self._flusher.start()

    def cancel_timer(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
