"""What happens behind the appends: queues go to their files, and from time to time it is noted how far all is durable.

Nothing runs while nothing changes: the timer is armed by a write and stops when everything is written and marked.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from zlib import crc32

from gantrymq.errors import StoreError
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.disk import Disk, Syncable
from gantrymq.store.checkpoint import HEAD_BYTES, Checkpoint, CheckpointFile, Mark, MarkFile
from gantrymq.store.commit_log import CommitLog
from gantrymq.store.consume_queue import ConsumeQueue
from gantrymq.store.dispatch import Dispatch
from gantrymq.store.layout import Layout
from gantrymq.store.queue_table import QueueTable
from gantrymq.store.recovery import Case, Recovered

log = logging.getLogger("gantrymq.store")

ROUND_SECONDS = 1.0
"""Between two write-outs of the queues."""
ROUNDS_PER_MARK = 5
"""So many seconds of records are read again after a crash."""
SYNC_BATCH = 4
"""Derived files synced in one go; few, because commits queue behind them."""


class _Path:
    """A file or directory to be synced in the background, opened there and then."""

    def __init__(self, disk: Disk, path: str, *, directory: bool) -> None:
        self._disk = disk
        self._path = path
        self._directory = directory

    def sync(self) -> None:
        try:
            if self._directory:
                self._disk.sync_dir(self._path)
                return
            file = self._disk.open(self._path)
        except FileNotFoundError:
            return  # retention was faster
        try:
            file.sync()
        finally:
            file.close()


class Housekeeping:
    """Writes out what is derived, and marks how far it is durable."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        layout: Layout,
        commit_log: CommitLog,
        queues: QueueTable,
        dispatch: Dispatch,
        mark_file: MarkFile,
        checkpoint: Checkpoint,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._layout = layout
        self._log = commit_log
        self._queues = queues
        self._dispatch = dispatch
        self._mark_file = mark_file
        self._checkpoint = checkpoint
        self._timer: Timer | None = None
        self._rounds = 0
        self._marked = -1
        """Position of the last mark; -1 when there is none of this process."""
        self._marking = False
        self._unsynced: dict[str, bool] = {}
        """Paths with changes that are not durable; True for a directory."""
        self._stopped = False

    # ---- rounds

    def arm(self) -> None:
        """Something was written: come back in a second."""
        if self._timer is None and not self._stopped:
            self._timer = self._clock.call_later(ROUND_SECONDS, self._round)

    def cancel(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _round(self) -> None:
        self._timer = None
        self._rounds += 1
        self.write_out()
        if self._rounds % ROUNDS_PER_MARK == 0:
            self._begin_mark()
        if self._marked < self._dispatch.position or self._dispatch.changed:
            self.arm()

    def write_out(self) -> None:
        """Put the visible entries of changed queues into their files."""
        changed = self._dispatch.changed
        while changed:
            queue = changed.pop()
            try:
                self._write_queue(queue)
            except StoreError as error:
                changed.add(queue)
                log.warning("entries of a queue stay in memory for now: %s", error)
                return

    def _write_queue(self, queue: ConsumeQueue) -> None:
        new = queue.is_new
        for path in queue.write_out():
            self._unsynced[path] = False
            self._unsynced[queue.directory] = True
        if new:
            self._unsynced[os.path.dirname(queue.directory)] = True
            self._unsynced[self._layout.queues] = True
            self._unsynced[self._layout.root] = True

    # ---- marks

    def _begin_mark(self) -> None:
        """Sync what is derived, a few files at a time, and note the position it was complete for."""
        if self._marking or self._dispatch.changed or self._marked >= self._dispatch.position:
            return
        position = min(self._dispatch.position, self._log.flushed)
        self._marking = True
        self._sync_next(list(self._take_unsynced()), lambda error: self._end_mark(position, error))

    def _take_unsynced(self) -> list[Syncable]:
        unsynced: list[Syncable] = [_Path(self._disk, path, directory=kind) for path, kind in self._unsynced.items()]
        self._unsynced = {}
        return unsynced

    def _sync_next(self, rest: list[Syncable], done: Callable[[BaseException | None], None]) -> None:
        if not rest:
            done(None)
            return

        def ended(error: BaseException | None) -> None:
            if error is not None or self._stopped:
                done(error or StoreError("closed"))
            else:
                self._sync_next(rest[SYNC_BATCH:], done)

        self._disk.sync_later(rest[:SYNC_BATCH], ended)

    def _end_mark(self, position: int, error: BaseException | None) -> None:
        self._marking = False
        if error is not None:
            log.warning("derived files could not be synced, no mark is made: %s", error)
            return
        try:
            self._mark(position)
        except StoreError as failure:
            log.warning("no mark could be made; recovery would read more: %s", failure)

    def _mark(self, position: int) -> None:
        last = self._dispatch.last_record
        if last < 0:
            return
        digest = crc32(self._log.read(last, HEAD_BYTES))
        self._mark_file.write(Mark(position, 0, last, digest))
        self._marked = position

    # ---- start and end

    def after_recovery(self, recovered: Recovered) -> None:
        """Write what recovery built, and zero what lies behind it in the files of the queues."""
        for queue in self._queues.queues.values():
            try:
                self._write_queue(queue)
                if recovered.case is not Case.CLEAN:
                    queue.drop_stale()
            except StoreError as error:
                self._dispatch.changed.add(queue)
                log.warning("entries of a queue stay in memory for now: %s", error)

    async def finish(self) -> None:
        """Make everything that is derived durable, with checkpoint and mark. Raises StoreError."""
        self.cancel()
        self.write_out()
        if self._dispatch.changed:
            raise StoreError("not all entries of the queues could be written")
        self._write_checkpoint()
        ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        self._disk.sync_later(self._take_unsynced(), lambda error: None if ended.done() else ended.set_result(error))
        error = await ended
        if error is not None:
            raise StoreError(f"derived files could not be synced: {error}") from error
        self._mark(self._dispatch.position)

    def _write_checkpoint(self) -> None:
        stored = self._dispatch.last_store_timestamp
        if not stored:
            return
        file = CheckpointFile(self._disk, self._layout.checkpoint)
        try:
            file.write(Checkpoint(stored, stored, max(self._checkpoint.index_timestamp, stored), 0, 0))
        finally:
            file.close()
        self._unsynced[self._layout.checkpoint] = False
        self._unsynced[self._layout.root] = True
