"""The private file of decisions, ``<root>/gantry/decisions``. It is derived and disposable, and only shortens a
start.
"""

from __future__ import annotations

import logging
from typing import Final

from gantrymq.errors import RemoteProtocolError, StoreError
from gantrymq.message.system_topics import HALF, OP
from gantrymq.runtime.disk import Disk, File, read_whole, write_durably
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.table.decisions import Coverage, DecisionLog
from gantrymq.transactions.table.open_halves import TransactionTable

log = logging.getLogger("gantrymq.transactions")

FILE_NAME: Final = "gantry/decisions"


class DecisionFile:
    """Reads and writes the file. A failed write is logged, and the next start reads the op queue instead."""

    def __init__(self, disk: Disk, store: HalfStore) -> None:
        self._disk = disk
        self._store = store
        self._path = store.path(FILE_NAME)
        self._writing: File | None = None
        self._saved: Coverage | None = None

    def load(self) -> tuple[DecisionLog, Coverage] | None:
        """The file's content; None when there is none or it is damaged (then it is removed)."""
        try:
            return DecisionLog.decode(read_whole(self._disk, self._path))
        except FileNotFoundError:
            return None
        except (RemoteProtocolError, StoreError) as error:
            log.warning("%s cannot be used (%s): reading all op messages instead", self._path, error)
            self._disk.remove(self._path)
            return None

    def discard(self) -> None:
        """Remove the file, because it does not fit the store: later it could seem to fit."""
        self._disk.remove(self._path)

    def save(self, table: TransactionTable) -> None:
        """Write now, durably."""
        try:
            self._disk.make_dirs(self._path.rpartition("/")[0])
            write_durably(self._disk, self._path, table.decisions.encode(self._coverage(table)))
        except (StoreError, OSError) as error:
            log.warning("%s was not written, the next start takes longer: %s", self._path, error)

    def save_later(self, table: TransactionTable) -> None:
        """Write without making the loop wait for the disk; nothing happens when nothing changed."""
        coverage = self._coverage(table)
        if self._writing is not None or coverage == self._saved:
            return
        try:
            self._disk.make_dirs(self._path.rpartition("/")[0])
            file = self._disk.open(self._path + ".new", create=True)
            file.truncate(0)
            file.write(table.decisions.encode(coverage), 0)
        except (StoreError, OSError) as error:
            log.warning("%s was not written, the next start takes longer: %s", self._path, error)
            return
        self._writing = file
        self._saved = coverage
        self._disk.sync_later([file], lambda error: self._synced(file, error))

    def _synced(self, file: File, error: BaseException | None) -> None:
        file.close()
        self._writing = None
        if error is None:
            self._disk.rename(file.path, self._path)
        else:
            log.warning("%s was not written, the next start takes longer: %s", self._path, error)

    def _coverage(self, table: TransactionTable) -> Coverage:
        """What the decisions in memory cover: all that is visible. A record becomes visible together with the call that
        takes note of its decision; what waits for the disk lies behind that."""
        half_min, next_half = self._store.queue_range(HALF, 0)
        op_min, next_op = self._store.queue_range(OP, 0)
        log_position = self._store.max_log_offset
        table.decisions.forget_below(half_min)
        return Coverage(
            next_half,
            next_op,
            log_position,
            self._log_offset(HALF, half_min, next_half - 1),
            self._log_offset(OP, op_min, next_op - 1),
        )

    def _log_offset(self, topic: str, first: int, queue_offset: int) -> int:
        entry = self._store.entry(topic, 0, queue_offset) if queue_offset >= first else None
        return -1 if entry is None else entry.log_offset
