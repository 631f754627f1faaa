"""What a broker has derived from its log, beside the store's own: files of transactions, delays, timers and positions.

When the log of a replica is cut, what speaks of the rest of it must go first. Other records will come to lie there, and
a file that seems to fit them would decide a transaction in the wrong way, or pass over messages.
"""

from __future__ import annotations

from typing import Any, Final

from gantrymq.broker.delivery.delay import DELAYS_FILE
from gantrymq.broker.delivery.delivered import FILE_NAME as DELIVERED
from gantrymq.broker.delivery.timer import CHECK_FILE, TIMER_LOG
from gantrymq.broker.pop.check_point import APPLIED_GROUP, REVIVE_GROUP
from gantrymq.broker.registries.json_file import read_json, write_json
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.transactions.decision_file import FILE_NAME as DECISIONS
from gantrymq.broker.transactions.half_notes_file import FILE_NAME as HALF_NOTES
from gantrymq.message import properties
from gantrymq.message.system_topics import SCHEDULE, TIMER
from gantrymq.runtime.disk import Disk
from gantrymq.store.message_store import MessageStore
from gantrymq.store.timer_log import TimerCheckFile, TimerLog

_LAST_DONE: Final = (REVIVE_GROUP, APPLIED_GROUP)
"""Their offsets name the last message that is done, and not the next one."""


class DerivedState:
    """Forgets what is derived from the end of a log. No part that uses the files may be at work."""

    def __init__(self, store: MessageStore, disk: Disk, offsets: ConsumerOffsets, precision_ms: int, size: int) -> None:
        """``precision_ms``, ``size``: of slots and files of the timer log."""
        self._store = store
        self._disk = disk
        self._offsets = offsets
        self._precision_ms = precision_ms
        self._size = size

    def forget_behind(self, position: int) -> None:
        """The log will be cut at this log offset. Raises StoreError or OSError; then it must not be."""
        for name in (DECISIONS, HALF_NOTES):
            if self._disk.exists(self._store.path(name)):
                self._disk.remove(self._store.path(name))
        self._lower_offsets(position)
        levels, timer_ms = self._first_lost(position)
        self._lower_delays(levels)
        self._lower_timer(position, timer_ms)
        self._lower_delivered(levels, timer_ms)

    def _lower_offsets(self, position: int) -> None:
        """No group may be behind the end of a queue: it would miss what comes there."""
        for group, topic in self._offsets.pairs():
            for queue_id, offset in self._offsets.of_topic(group, topic).items():
                end = self._store.queue_end(topic, queue_id, position)
                most = end - 1 if group in _LAST_DONE else end
                if offset > most:
                    self._offsets.lower(group, topic, queue_id, most)
        self._offsets.save()

    def _first_lost(self, position: int) -> tuple[dict[int, int], int | None]:
        """Of the messages whose copies lie behind ``position``: by delay level the first queue offset, and the first
        time (ms) of a timer message; None: there is none."""
        levels: dict[int, int] = {}
        timer_ms: int | None = None
        for made_of, _ in self._store.copies(position):
            message = self._store.read(made_of)
            if message is not None and message.topic == SCHEDULE:
                level = message.queue_id + 1
                levels[level] = min(message.queue_offset, levels.get(level, message.queue_offset))
            elif message is not None and message.topic == TIMER:
                out = properties.find(message.properties_text, properties.TIMER_OUT_MS)
                due = int(out) // self._precision_ms * self._precision_ms if out is not None and out.isdigit() else 0
                timer_ms = due if timer_ms is None else min(timer_ms, due)
        return levels, timer_ms

    def _lower_delays(self, levels: dict[int, int]) -> None:
        path = self._store.path(DELAYS_FILE)
        content = read_json(self._disk, path)
        if content is not None:
            content["offsetTable"] = _lowered(content.get("offsetTable") or {}, levels)
            write_json(self._disk, path, content)

    def _lower_timer(self, position: int, timer_ms: int | None) -> None:
        path = self._store.path(CHECK_FILE)
        if not self._disk.exists(path):
            return
        file = TimerCheckFile(self._disk, path)
        check = file.read()
        check.queue_offset = min(check.queue_offset, self._store.queue_end(TIMER, 0, position))
        if timer_ms is not None:
            check.read_ms = min(check.read_ms, timer_ms)
        file.write(check)
        units = TimerLog(self._disk, self._store.path(TIMER_LOG), self._size, self._precision_ms)
        units.recover(check.read_ms, lambda unit: unit.log_offset < position)
        for one in (*units.unsynced(), file.file):
            one.sync()
        units.close()
        file.file.close()

    def _lower_delivered(self, levels: dict[int, int], timer_ms: int | None) -> None:
        """From the beginning of the log on it is looked for what has its copy there."""
        path = self._store.path(DELIVERED)
        content = read_json(self._disk, path)
        if not content:
            return
        timer: dict[str, Any] = dict(content.get("timer") or {})
        if timer_ms is not None and "read" in timer:
            timer["read"] = min(int(timer["read"]), timer_ms)
        known = _lowered(content.get("levels") or {}, levels)
        write_json(self._disk, path, {"position": self._store.min_log_offset, "levels": known, "timer": timer})


def _lowered(table: dict[Any, Any], levels: dict[int, int]) -> dict[Any, Any]:
    return {level: min(int(offset), levels.get(int(level), int(offset))) for level, offset in table.items()}
