"""Deletes old data: log files first, then the files that only point to them. Source: CleanCommitLogService."""

from __future__ import annotations

import logging

from gantrymq.runtime.disk import Disk
from gantrymq.store.index.index import Index
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.queues.queue_table import QueueTable

log = logging.getLogger("gantrymq.store")

FILES_PER_RUN = 10
"""Log files removed in one run, so that the loop is not held up. Source: deleteFileBatchMax."""
HOUR_MS = 3_600_000


def deletable_end(disk: Disk, commit_log: CommitLog, now_ms: int, hours: float, keep_from: int) -> int:
    """Log offset before which files may go: last written ``hours`` ago, not reaching over ``keep_from``.

    The file that is written to always stays.
    """
    end = commit_log.start
    for segment in commit_log.files.segments[:-1][:FILES_PER_RUN]:
        if segment.end > min(keep_from, commit_log.flushed):
            break
        if disk.modified_ms(segment.path) + hours * HOUR_MS > now_ms:
            break
        end = segment.end
    return end


def delete_before(position: int, commit_log: CommitLog, queues: QueueTable, index: Index | None) -> int:
    """Remove log files before ``position`` and the data derived from them. Returns the number of log files."""
    dropped = commit_log.files.drop_before(position)
    if dropped:
        commit_log.files.sync_directory()
        for queue in queues.queues.values():
            queue.drop_before(commit_log.start)
        if index is not None:
            index.drop_before(commit_log.start)
        log.info("removed %d log files; the log begins at offset %d now", dropped, commit_log.start)
    return dropped
