"""The progress of consumer groups, stored in ``config/consumerOffset.json``.

Offsets are kept in memory and written every few seconds, as in Apache's broker: after a crash a group may get the
messages of that time again. Source: ConsumerOffsetManager; docs/store.md#configuration-files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gantrymq.broker.registries.json_file import LazyFile, read_json
from gantrymq.errors import ConfigError
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk

_SEPARATOR: Final = "@"


class ConsumerOffsets:
    """(topic, group) to queue to next offset."""

    def __init__(self, disk: Disk, path: str, clock: Clock) -> None:
        """Raises ConfigError when the file is there and cannot be read."""
        self._path = path
        self._clock = clock
        self._version: dict[str, int] = {"counter": 0, "stateVersion": 0, "timestamp": clock.wall_ms()}
        self._moved = False
        """Whether the table has changed since somebody asked for its version."""
        self._table: dict[tuple[str, str], dict[int, int]] = {}
        self._pulled: dict[tuple[str, str, int], int] = {}
        self.resets: dict[tuple[str, str, int], int] = {}
        """(group, topic, queue) to the offset that the group's next pull is sent to."""
        self.saving: list[Callable[[], None]] = []
        """Called right before the file is written, so that parts with positions of their own commit them."""
        self.follows = False
        """Whether the table is that of another broker: commits of clients change nothing then."""
        self._file = LazyFile(disk, path)
        content = read_json(disk, path)
        if content is not None:
            self._load(content)

    def _load(self, content: dict[Any, Any]) -> None:
        try:
            for key, queues in (content.get("offsetTable") or {}).items():
                topic, _, group = key.rpartition(_SEPARATOR)
                self._table[topic, group] = {int(queue): int(offset) for queue, offset in queues.items()}
            for name, value in (content.get("dataVersion") or {}).items():
                self._version[name] = int(value)
        except (AttributeError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{self._path} is not a table of consumer offsets: {error}; repair or remove it"
            ) from error

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """The next offset to read; None when the group never committed one."""
        queues = self._table.get((topic, group))
        return queues.get(queue_id) if queues is not None else None

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """May go back: a group may be reset by its owner."""
        queues = self._table.get((topic, group))
        if queues is None:
            queues = self._table[topic, group] = {}
        if queues.get(queue_id) != offset and not self.follows:
            queues[queue_id] = offset
            self._file.dirty = self._moved = True

    def lower(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The queue ends at ``offset`` now, where the group was further."""
        self._table[topic, group][queue_id] = offset
        self._file.dirty = self._moved = True

    @property
    def version(self) -> dict[str, int]:
        """stateVersion, timestamp (ms) and counter of the table. Two equal versions of one broker are equal tables.

        A commit is too frequent to count each one, so all that came since the version was last asked for count once.
        (Apache's broker counts every 500th commit: ConsumerOffsetManager.)
        """
        if self._moved:
            self._moved = False
            counter = self._version["counter"] + 1
            self._version = {**self._version, "counter": counter, "timestamp": self._clock.wall_ms()}
        return dict(self._version)

    def take(self, content: dict[Any, Any]) -> None:
        """Have the table of another broker, with its version (see ``content``), from now on; written durably. Raises
        ConfigError when it is no such table, StoreError when it cannot be written; then nothing is changed."""
        before = self._table, self._version, self._moved
        self._table, self._version, self._moved = {}, dict(self._version), False
        try:
            self._load(content)
            self._file.write(self.content())
        except BaseException:
            self._table, self._version, self._moved = before
            raise

    def note_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """A member of the group asked for messages from ``offset`` on."""
        self._pulled[group, topic, queue_id] = offset

    def pulled(self, group: str, topic: str, queue_id: int) -> int:
        """How far the group has pulled since the broker started; -1 when it has not."""
        return self._pulled.get((group, topic, queue_id), -1)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Continue at ``offset``, whatever the group's members commit until they learn of it."""
        self.commit(group, topic, queue_id, offset)
        self.resets[group, topic, queue_id] = offset

    def of_topic(self, group: str, topic: str) -> dict[int, int]:
        """Queue to next offset."""
        return dict(self._table.get((topic, group), {}))

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have read a topic."""
        return [group for known, group in self._table if known == topic]

    def topics_of(self, group: str) -> list[str]:
        """Topics that a group has read."""
        return [topic for topic, known in self._table if known == group]

    def pairs(self) -> list[tuple[str, str]]:
        """(group, topic) of everything that is read."""
        return [(group, topic) for topic, group in self._table]

    @property
    def next_write(self) -> int:
        """Number of the write after which the file has what is in memory now."""
        return self._file.begun + self._file.dirty

    @property
    def kept_write(self) -> int:
        """Number of the last write that is done."""
        return self._file.kept

    def forget_topic(self, topic: str) -> None:
        self._forget([key for key in self._table if key[0] == topic])

    def forget_group(self, group: str) -> None:
        self._forget([key for key in self._table if key[1] == group])

    def _forget(self, keys: list[tuple[str, str]]) -> None:
        for topic, group in keys:
            del self._table[topic, group]
            for table in (self._pulled, self.resets):
                for place in [place for place in table if place[:2] == (group, topic)]:
                    del table[place]
            self._file.dirty = self._moved = True

    def content(self) -> dict[str, Any]:
        """What the file holds, also the answer to GET_ALL_CONSUMER_OFFSET."""
        groups: dict[str, list[str]] = {}
        for topic, group in self._table:
            groups.setdefault(group, []).append(topic)
        return {
            "dataVersion": self.version,
            "groupTopicMap": groups,
            "offsetTable": {f"{topic}{_SEPARATOR}{group}": queues for (topic, group), queues in self._table.items()},
        }

    def save(self) -> None:
        """Write now, durably; raises StoreError."""
        for note in self.saving:
            note()
        self._file.write(self.content())

    def save_later(self) -> None:
        """Write what changed without making the loop wait; raises StoreError when the file cannot be made."""
        for note in self.saving:
            note()
        self._file.write_later(self.content)
