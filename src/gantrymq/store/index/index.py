"""Finds messages by key and time. The index follows the log at its own pace and can be rebuilt from it.

UNIQ_KEY and every word of KEYS are indexed, as ``topic#key``; ROLLBACK records are not. Source: IndexService.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Final

from gantrymq.message import flags, properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.tags import hash_behind, hash_on
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk
from gantrymq.store.dispatch import Pending
from gantrymq.store.index.index_file import Entry, Header, IndexFile
from gantrymq.store.log.commit_log import CommitLog
from gantrymq.store.log.records import LogWalk
from gantrymq.store.recovery.quarantine import Quarantine

log = logging.getLogger("gantrymq.store")

STEP_RECORDS = 500
"""Records indexed in one step, half a millisecond of the loop; more of them while many wait."""
PENDING_SHARE = 8
"""One of so many of the records that wait are indexed in one step."""
STEPS_PER_QUERY = 200
"""How far a query brings the index up to date before it looks; it never waits for a whole rebuild."""
PENDING_LIMIT = 100_000
"""Records remembered for indexing; when more come they are read from the log instead."""
QUERY_LIMIT = 64
"""Most messages of one answer. Source: maxMsgsNumBatch."""
FOREVER_MS = 1 << 62


def key_hash(topic: str, key: str) -> int:
    """Source: IndexFile.indexKeyHashMethod."""
    return _positive(hash_on(_prefix_hash(topic), key))


def _positive(value: int) -> int:
    """The absolute value of a hash; 0 for the one that has none in 32 bits."""
    if value < 0x8000_0000:
        return value
    return 0x1_0000_0000 - value if value > 0x8000_0000 else 0


@lru_cache(maxsize=1024)
def _prefix_hash(topic: str) -> int:
    return hash_on(0, f"{topic}#")


_find_unique_key = properties.finder(properties.UNIQ_KEY)
_find_words = properties.finder(properties.KEYS)


def keys_of(properties_text: str) -> list[str]:
    """What a record can be found by: its unique key, then the words of KEYS."""
    unique = _find_unique_key(properties_text)
    words = _words_of(properties_text)
    return [unique, *words] if unique else words


def _words_of(properties_text: str) -> list[str]:
    """The words of KEYS."""
    at = properties_text.rfind(_KEYS)
    if at < 0:
        return []
    if at == 0 or properties_text[at - 1] == "\x02":
        end = properties_text.find("\x02", at)
        words = properties_text[at + len(_KEYS) : end] if end > 0 else None
    else:
        words = None
    if not words:
        words = _find_words(properties_text) or ""
    return [words] if words and " " not in words else [word for word in words.split(" ") if word]


_KEYS: Final = f"{properties.KEYS}\x01"
_TAIL: Final = 3
"""Characters: 4096 different ends of ids that count in hexadecimal digits, which are remembered."""


class Index:
    """All index files of a store. ``position``: every visible record before this log offset is indexed."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        commit_log: CommitLog,
        directory: str,
        slots: int,
        entries: int,
        quarantine: Quarantine,
    ) -> None:
        self._disk = disk
        self._quarantine = quarantine
        self._clock = clock
        self._log = commit_log
        self._directory = directory
        self._slots = slots
        self._entries = entries
        self.files: list[IndexFile] = []
        self.position = 0
        self._target = 0
        """Behind the last record that is to be indexed."""
        self._pending: deque[Pending] = deque()
        """The newest of these records; older ones are read from the log."""
        self._work: Iterator[None] | None = None
        """A longer piece of work that is done step by step."""
        self.touched: dict[str, None] = {}
        """Paths (an ordered set) of files written to since somebody emptied it; to be synced."""

    # ---- start

    def load(
        self, names: list[str], log_end: int, known_position: int | None, safe_until_ms: int, *, clean: bool
    ) -> None:
        """Take the files that are there, and plan what is missing up to ``log_end``.

        ``known_position``: our mark says that everything before it is indexed and durable; None: there is no mark.
        Then files that end at or before the store time ``safe_until_ms`` are durable.
        """
        for name in names:
            file = IndexFile(self._disk, os.path.join(self._directory, name), self._slots, self._entries)
            if self._disk.size(file.path) == 0:
                file.remove()
                continue
            file.load()
            self.files.append(file)
        self._target = log_end
        self.position = self._log.start
        if not self.files:
            return
        if clean:
            self.position = max(self.position, self.files[-1].header.end_offset, known_position or 0)
        elif known_position is None:
            # Somebody else's: what is whole and points into the log is taken as it is.
            self.position = max(self.position, self.files[-1].header.end_offset)
            self._work = self._verify(log_end, None, safe_until_ms)
        else:
            # Entries behind the mark may stand for records that a power cut took; others lie in their place now.
            self.position = max(self.position, known_position)
            self._work = self._verify(known_position, known_position, 0)
        self.position = min(self.position, log_end)

    def _verify(self, trusted_end: int, known_position: int | None, safe_until_ms: int) -> Iterator[None]:
        """Check the files that a crash may have damaged. A bad file is cut at the damage, and later files are removed.

        Durable entries are never cut, so that the mark stays true when this is interrupted and repeated.
        """
        for number, file in enumerate(self.files):
            following = self.files[number + 1].header if file is not self.files[-1] else None
            if following and _is_durable(file, following, known_position, safe_until_ms):
                continue
            whole = True
            for verdict in file.verify(trusted_end):
                whole = verdict
                yield
            self._flush_file(file)
            self.touched[file.path] = None  # whoever wrote it may have died before it was synced
            if not whole or (following and (not file.is_full or following.begin_offset < file.header.end_offset)):
                log.warning("%s is rebuilt from offset %d on", file.path, file.header.end_offset)
                self._drop_behind(number)
                if known_position is None:
                    self.position = max(self._log.start, file.header.end_offset)
                return
            file.close()

    def _drop_behind(self, number: int) -> None:
        damaged = self.files[number + 1 :]
        del self.files[number + 1 :]
        for file in damaged:
            file.remove()
        self.touched[self.files[-1].path] = None  # its directory is synced with it

    # ---- following the log

    def note(self, items: list[Pending]) -> None:
        """Records became visible."""
        if len(self._pending) >= PENDING_LIMIT:
            self._pending.clear()
        self._pending.extend(items)
        self._target = items[-1][0]

    @property
    def behind(self) -> bool:
        """Whether anything waits to be indexed or checked."""
        return self._work is not None or self.position < self._target

    @property
    def hurries(self) -> bool:
        """Whether so much waits that the rest would soon have to be read from the log again, which takes longer."""
        return len(self._pending) > PENDING_LIMIT // 4

    @property
    def backlog_bytes(self) -> int:
        """How much of the log is not indexed yet."""
        return self._target - self.position

    def step(self) -> bool:
        """Do a piece of what waits; whether more is left. Raises DiskFull (call again when there is space)."""
        if self._work is None:
            end = self._pending[0][3] if self._pending else self._target
            if self.position < end:
                self._work = self._catch_up(end)
        if self._work is None:
            self._take_pending()
        else:
            self._continue(self._work)
        return self.behind

    def _continue(self, work: Iterator[None]) -> None:
        self._work = None
        for _ in work:
            self._work = work
            return

    def _catch_up(self, end: int) -> Iterator[None]:
        """Index the records of the log before ``end``; damaged ones are left out."""
        while self.position < end:
            self.position = max(self.position, self._log.start)  # retention may have come first
            walk = LogWalk(self._log.files, self.position, end)
            entries: list[Entry] = []
            for place, parsed, _data, _at in walk:
                _size, topic, _queue, _offset, sys_flag, stored, text = parsed
                if sys_flag & flags.TRANSACTION_MASK != flags.ROLLED_BACK:
                    entries += [(key_hash(topic, key), place, stored) for key in keys_of(text)]
                if len(entries) >= STEP_RECORDS:
                    self._put(entries)
                    self.position = walk.position
                    entries = []
                    yield
            self._put(entries)
            self.position = max(self.position, walk.position)
            if self.position < end:
                self.position = self._quarantine.behind(self.position, end)

    def _take_pending(self) -> None:
        """Index the oldest of the pending records."""
        pending = self._pending
        # A share of what waits: where records come faster than in small steps they would soon have to be read again.
        count = min(len(pending), max(STEP_RECORDS, len(pending) // PENDING_SHARE))
        entries: list[Entry] = []
        latest = head = ""
        of_topic = of_head = _prefix_hash("")
        for _end, queue, _offset, place, _size, _tags, text, stored, topic, unique_key, _type in islice(pending, count):
            if queue is None:
                continue
            if unique_key is None:
                unique_key = _find_unique_key(text)
            words = _words_of(text) if _KEYS in text else ()
            if not unique_key and not words:
                continue
            if topic != latest:
                latest, head = topic, ""
                of_topic = of_head = _prefix_hash(topic)
            if unique_key:
                # Ids that follow each other differ in their last digits only.
                if unique_key[:-_TAIL] != head:
                    head = unique_key[:-_TAIL]
                    of_head = hash_on(of_topic, head)
                entries.append((_positive(hash_behind(of_head, unique_key[-_TAIL:])), place, stored))
            for word in words:
                entries.append((_positive(hash_on(of_topic, word)), place, stored))
        self._put(entries)
        for _ in range(count):
            self.position = pending.popleft()[0]

    def _put(self, entries: list[Entry]) -> None:
        """Raises DiskFull; the next try continues where this one stopped."""
        again = self.files[-1].header.end_offset if self.files else -1
        if entries and entries[0][1] <= again:
            entries = [entry for entry in entries if entry[1] > again or not self._present(entry[0], entry[1])]
        done = 0
        while done < len(entries):
            file = self.files[-1] if self.files else None
            if file is None or file.is_full:
                file = self._next_file()
            done += file.put_all(entries[done:] if done else entries)

    def _present(self, hashed: int, place: int) -> bool:
        """Whether the record is already indexed under that hash: work was interrupted in its middle."""
        for file in reversed(self.files):
            if file.header.end_offset < place:
                return False
            if any(found == place for found in file.find(hashed, 0, FOREVER_MS)):  # mypyc: no ``in`` of generators
                return True
        return False

    def _next_file(self) -> IndexFile:
        if self.files:
            self._flush_file(self.files[-1])
            self.files[-1].close()
        file = IndexFile(self._disk, self._new_path(), self._slots, self._entries)
        file.create()
        self.files.append(file)
        return file

    def _new_path(self) -> str:
        """Named by the creation time, and always behind the files that are there."""
        moment = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)
        name = moment.strftime("%Y%m%d%H%M%S") + f"{moment.microsecond // 1000:03d}"
        if self.files:
            name = max(name, f"{int(os.path.basename(self.files[-1].path)) + 1:017d}")
        return os.path.join(self._directory, name)

    def flush(self) -> None:
        """Write what is indexed to the files; ``touched`` says which are to be synced. Raises DiskFull."""
        for file in self.files[-2:]:
            self._flush_file(file)

    def _flush_file(self, file: IndexFile) -> None:
        if file.flush():
            self.touched[file.path] = None

    @property
    def last_time(self) -> int:
        """Store time (ms) of the newest record with an entry; 0 when there is none."""
        return self.files[-1].header.end_time if self.files else 0

    # ---- asking

    def offsets(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Log offsets of records that may have the key, newest first. The caller reads and compares."""
        for _ in range(STEPS_PER_QUERY):
            if not self.step():
                break
        hashed = key_hash(topic, key)
        for file in reversed(self.files):
            header = file.header
            if header.count > 1 and header.begin_time <= end_ms and header.end_time >= begin_ms:
                yield from file.find(hashed, begin_ms, end_ms)

    # ---- retention and end

    def drop_before(self, log_start: int) -> int:
        """Remove the files, except the last, that only name removed records; how many."""
        dropped = 0
        while len(self.files) > 1 and self.files[0].header.end_offset < log_start:
            self.files.pop(0).remove()
            dropped += 1
        return dropped

    def truncate(self, log_offset: int) -> Iterator[None]:
        """Forget the records at and behind ``log_offset``, in steps. Everything indexed was flushed; the caller
        flushes again. Raises DiskFull."""
        while self._work is not None:
            self._continue(self._work)
            yield
        self._pending = deque([item for item in self._pending if item[3] < log_offset])
        self._target, self.position = min(self._target, log_offset), min(self.position, log_offset)
        while self.files and self.files[-1].header.count > 1 and self.files[-1].header.begin_offset >= log_offset:
            file = self.files.pop()
            self.touched[file.path] = None
            file.remove()
        if self.files and self.files[-1].header.end_offset >= log_offset:
            file = self.files[-1]
            for _ in file.verify(log_offset):
                yield
            self._flush_file(file)

    def close(self) -> None:
        for file in self.files:
            file.close()


def _is_durable(file: IndexFile, following: Header, known_position: int | None, safe_until_ms: int) -> bool:
    """Whether a file needs no check after a crash: it was full before something durable was put into the next."""
    if known_position is None:
        return file.header.end_time <= safe_until_ms
    return following.count > 1 and following.begin_offset < known_position


def has_key(message: StoredMessage, key: str) -> bool:
    """Whether a message is found by ``key``."""
    return key in keys_of(message.properties_text)
