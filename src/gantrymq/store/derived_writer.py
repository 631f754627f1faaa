"""Background work of the store: it writes queues to their files, and notes from time to time up to where everything is
durable.

Nothing runs while nothing changes: a write starts the timer, and it stops when everything is written and noted.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from zlib import crc32

from gantrymq.errors import StoreError, TooManyOpenFiles
from gantrymq.runtime.clock import Clock, Timer
from gantrymq.runtime.disk import Disk, Syncable
from gantrymq.store.dispatch import Dispatch
from gantrymq.store.files.checkpoint import HEAD_BYTES, Checkpoint, CheckpointFile, Mark, MarkFile
from gantrymq.store.index.index import Index
from gantrymq.store.layout import Layout
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.queues.consume_queue import ConsumeQueue
from gantrymq.store.queues.queue_table import QueueTable
from gantrymq.store.recovery.cases import Case
from gantrymq.store.recovery.recovery import Recovered

log = logging.getLogger("gantrymq.store")

ROUND_SECONDS = 1.0
"""Between two write-outs of the queues."""
ROUNDS_PER_MARK = 5
"""So many seconds of records are read again after a crash."""
INDEX_PAUSE_SECONDS = 0.005
"""Between two slices of indexing."""
CLOSE_BACKLOG_BYTES = 64 << 20
"""So much of the log is still indexed before an orderly end; more than that is left to the next start."""
PLACES_LIMIT = 16
"""Rounds remembered until their records are durable."""
NEVER = 1 << 62
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


@dataclass(frozen=True, slots=True)
class _Place:
    """A position all entries before which are in files, and the last record before it."""

    position: int
    last_record: int
    store_timestamp: int


class DerivedWriter:
    """Writes derived data to its files, and notes up to where it is durable."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        layout: Layout,
        commit_log: CommitLog,
        queues: QueueTable,
        dispatch: Dispatch,
        index: Index | None,
        mark_file: MarkFile,
        checkpoint: Checkpoint,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._layout = layout
        self._log = commit_log
        self._queues = queues
        self._dispatch = dispatch
        self._index = index
        self._mark_file = mark_file
        self._checkpoint = checkpoint
        self._timer: Timer | None = None
        self._index_timer: Timer | None = None
        self._rounds = 0
        self._marked = -1
        """Position of the last mark; -1 when there is none of this process."""
        self._marking = False
        self._passed: list[_Place] = []
        self._unsynced: dict[str, bool] = {}
        """Paths with changes that are not durable; True for a directory."""
        self._syncing: dict[str, bool] = {}
        """Those of them that are being synced for a mark: until that has ended they are not durable, either."""
        self._stopped = False

    # ---- rounds

    def arm(self) -> None:
        """Something was written: come back in a second."""
        if self._timer is None and not self._stopped:
            self._timer = self._clock.call_later(ROUND_SECONDS, self._round)

    def cancel(self) -> None:
        self._stopped = True
        for timer in (self._timer, self._index_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._index_timer = None

    def _round(self) -> None:
        self._timer = None
        self._rounds += 1
        self.write_out()
        self._pass()
        self._index_some()
        if self._rounds % ROUNDS_PER_MARK == 0:
            self._begin_mark()
        if self._marked < self._dispatch.position or self._dispatch.changed or self._index_behind:
            self.arm()

    @property
    def _index_behind(self) -> bool:
        return self._index is not None and self._index.behind

    def _index_some(self) -> None:
        """A slice of indexing; the next one comes soon, but lets others in between."""
        self._index_timer = None
        if self._index is None or self._stopped:
            return
        try:
            more = self._index.step()
        except (StoreError, OSError) as error:
            log.warning("records are not indexed for now: %s", error)
            return
        if more and self._index_timer is None:
            pause = 0.0 if self._index.hurries else INDEX_PAUSE_SECONDS
            self._index_timer = self._clock.call_later(pause, self._index_some)

    def write_out(self) -> None:
        """Put the visible entries of changed queues into their files."""
        changed = self._dispatch.changed
        for queue in list(changed):
            try:
                self._write_queue(queue)
                del changed[queue]
            except (StoreError, OSError) as error:
                log.warning("entries of a queue stay in memory for now: %s", error)
                return

    def _write_queue(self, queue: ConsumeQueue) -> None:
        if not queue.has_unwritten:
            return
        if queue.is_new:  # noted first: a write that fails half-way has made directories, too
            self._sync_directories_of(queue)
        self._unsynced[queue.directory] = True
        for path in queue.write_out():
            self._unsynced[path] = False

    def _sync_directories_of(self, queue: ConsumeQueue) -> None:
        for directory in (os.path.dirname(queue.directory), self._layout.queues, self._layout.root):
            self._unsynced[directory] = True

    # ---- marks

    def _begin_mark(self) -> None:
        """Sync the derived files, a few at a time; then note the position up to which they are complete."""
        place = self._place_to_mark()
        if self._marking or self._dispatch.changed or place is None:
            return
        try:
            indexed = self._flush_index()
        except (StoreError, OSError) as error:
            log.warning("the index stays in memory for now: %s", error)
            return
        self._marking = True
        paths = self._syncing = self._unsynced
        self._sync_next(self._take_unsynced(), lambda error: self._end_mark(place, indexed, paths, error))

    def _place_to_mark(self) -> _Place | None:
        """The newest place passed in a round whose records are durable by now; None when it is marked already."""
        durable = [place for place in self._passed if place.position <= self._log.flushed]
        if not durable or durable[-1].position <= self._marked or durable[-1].last_record < 0:
            return None
        self._passed = [place for place in self._passed if place.position >= durable[-1].position]
        return durable[-1]

    def _pass(self) -> None:
        """Remember where the entries written out by now end."""
        dispatch = self._dispatch
        if not dispatch.changed and (not self._passed or self._passed[-1].position < dispatch.position):
            self._passed.append(_Place(dispatch.position, dispatch.last_record, dispatch.last_store_timestamp))
            del self._passed[:-PLACES_LIMIT]

    def _flush_index(self) -> int:
        """Write the index to its files; the log offset up to which it is complete then."""
        index = self._index
        if index is None:
            return 0
        index.flush()
        for path in index.touched:
            self._unsynced[path] = False
            self._unsynced[self._layout.index] = True
        index.touched.clear()
        return index.position

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
                done(error or StoreError("the store was closed meanwhile"))
            else:
                self._sync_next(rest[SYNC_BATCH:], done)

        self._disk.sync_later(rest[:SYNC_BATCH], ended)

    def _end_mark(
        self, place: _Place, indexed: int, paths: dict[str, bool], error: BaseException | None
    ) -> None:  # fmt: skip
        self._marking = False
        if self._stopped:
            return
        self._syncing = {}
        if isinstance(error, TooManyOpenFiles):  # no sync failed: some did not begin
            log.warning("derived files are synced later: %s", error)
            self._unsynced = paths | self._unsynced
            self.arm()
            return
        if error is not None:
            # As with the log: who knows which pages were dropped. Without marks the next start reads from the last one.
            log.error("derived files could not be synced; no recovery marks are written any more: %s", error)
            self._marked = NEVER
            return
        try:
            self._mark(place, indexed)
        except (StoreError, OSError) as failure:
            log.warning("no recovery mark could be written; a recovery would read more: %s", failure)
        else:
            self._sync_next(self._take_unsynced(), lambda _error: None)  # late is harmless: an older mark is true, too

    def _mark(self, place: _Place, indexed: int) -> None:
        """All files are durable up to ``place``: write this to checkpoint and mark."""
        self._write_checkpoint(place.store_timestamp)
        indexed = min(indexed, place.position)  # the index may know of records that are not durable
        digest = crc32(self._log.read(place.last_record, HEAD_BYTES))
        self._mark_file.write(Mark(place.position, indexed, place.last_record, digest))
        self._marked = place.position
        self._unsynced[self._layout.mark] = False
        self._unsynced[os.path.dirname(self._layout.mark)] = True

    def _write_checkpoint(self, stored: int) -> None:
        index_time = self._index.last_time if self._index is not None and not self._index.behind else 0
        file = CheckpointFile(self._disk, self._layout.checkpoint)
        try:
            file.write(Checkpoint(stored, stored, max(self._checkpoint.index_timestamp, index_time), 0, 0))
        finally:
            file.close()
        self._unsynced[self._layout.checkpoint] = False
        self._unsynced[self._layout.root] = True

    # ---- a log that is cut

    def lower(self, position: int, last_record: int, store_timestamp: int) -> None:
        """Write down that the log ends at ``position``, before it does: a recovery that believed in more would take
        what is missing for damage. Call behind ``finish``. Raises StoreError, OSError."""
        self._passed.clear()
        self._checkpoint = Checkpoint(index_timestamp=min(self._checkpoint.index_timestamp, store_timestamp))
        digest = crc32(self._log.read(last_record, HEAD_BYTES)) if last_record >= 0 else 0
        self._mark_file.write(Mark(position, position, last_record, digest))
        self._mark_file.keep(position)
        self._marked = position
        self._write_checkpoint(store_timestamp)
        # Synced, too: records older than its time that lie behind zeros would be taken for what follows on damage.
        _Path(self._disk, self._layout.checkpoint, directory=False).sync()

    async def truncate(self, position: int) -> None:
        """Cut queues and index, and make that durable. Raises StoreError, OSError."""
        for queue in self._queues.queues.values():
            paths = queue.truncate(position)
            if paths:
                self._unsynced.update(dict.fromkeys(paths, False))
                self._unsynced[queue.directory] = True
        if self._index is not None:
            for _ in self._index.truncate(position):
                await self._clock.sleep(0)
            self._flush_index()
        await self._sync_all()

    def go_on(self) -> None:
        """``finish`` was not the end."""
        self._stopped = False
        self.arm()

    # ---- start and end

    def after_recovery(self, recovered: Recovered) -> None:
        """Write what recovery built, and zero the rest of the queues' files behind it."""
        if recovered.last_record < 0:
            self._marked = recovered.visible  # nothing to mark until something is appended
        for queue in self._queues.queues.values():
            try:
                # Whoever made them may have died before. What is held comes later, and then the queue is not new.
                if recovered.case is not Case.CLEAN and (queue.has_unwritten or recovered.held is not None):
                    self._sync_directories_of(queue)
                self._write_queue(queue)
                if recovered.case is not Case.CLEAN and queue.drop_stale():
                    self._unsynced.update(dict.fromkeys(queue.paths, False))
                    self._unsynced[queue.directory] = True
            except (StoreError, OSError) as error:
                self._dispatch.changed[queue] = None
                log.warning("entries of a queue stay in memory for now: %s", error)
        if recovered.records or self._dispatch.changed or self._index_behind:
            self.arm()

    async def finish(self) -> None:
        """Make everything that is derived durable, with checkpoint and mark. Raises StoreError."""
        self.cancel()
        self.write_out()
        if self._dispatch.changed or self._marked == NEVER:
            raise StoreError("not everything that is derived from the log could be written")
        index = self._index
        while index is not None and index.backlog_bytes <= CLOSE_BACKLOG_BYTES and index.step():
            pass
        indexed = self._flush_index()
        self._unsynced, self._syncing = self._syncing | self._unsynced, {}
        await self._sync_all()
        dispatch = self._dispatch
        if dispatch.last_record >= 0:
            self._mark(_Place(dispatch.position, dispatch.last_record, dispatch.last_store_timestamp), indexed)
            await self._sync_all()

    async def _sync_all(self) -> None:
        ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        self._disk.sync_later(self._take_unsynced(), lambda error: None if ended.done() else ended.set_result(error))
        error = await ended
        if error is not None:
            raise StoreError(f"derived files could not be synced: {error}") from error
