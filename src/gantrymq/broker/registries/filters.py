"""The selectors of consumer groups, stored in ``config/consumerFilter.json``.

A selector is kept for a day after its group went, as in Apache's broker. Source: ConsumerFilterManager;
docs/store.md#configuration-files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from gantrymq.broker.filtering import bloom
from gantrymq.broker.filtering.predicate import SelectorInvalid
from gantrymq.broker.filtering.selection import Selection, by_expression, is_tag_type
from gantrymq.broker.registries.json_file import LazyFile, read_json
from gantrymq.errors import ConfigError
from gantrymq.message.heartbeat import SubscriptionData
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk

log = logging.getLogger("gantrymq.broker")

SAVE_SECONDS: Final = 10.0
KEPT_AFTER_DEATH_MS: Final = 24 * 3600 * 1000
"""filterDataCleanTimeSpan"""
DEAD_BEFORE_START_MS: Final = 30_000
"""How long before a start the groups of the file are taken to have left."""


class ConsumerFilter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one group selects of one topic by an expression."""

    topic: str
    consumer_group: str
    expression: str
    expression_type: str
    client_version: int
    """``subVersion`` of the subscription that brought it."""
    born_time: int
    """ms"""
    dead_time: int = 0
    """ms when the group left; 0 while it is here."""

    @property
    def is_dead(self) -> bool:
        return self.dead_time >= self.born_time


class ConsumerFilters:
    """(topic, group) to selector. Only subscriptions that are not by tags have one, and only when it can be used."""

    def __init__(self, disk: Disk, clock: Clock, path: str) -> None:
        """Raises ConfigError when the file is there and cannot be read."""
        self._clock = clock
        self._table: dict[tuple[str, str], tuple[ConsumerFilter, Selection]] = {}
        self._of_group: dict[str, dict[str, None]] = {}
        """Group to the topics of its selectors; a heartbeat looks only at those of its own groups."""
        self._file = LazyFile(disk, path)
        self._load(read_json(disk, path), path)

    def _load(self, content: dict[Any, Any] | None, path: str) -> None:
        try:
            for topic in ((content or {}).get("filterDataByTopic") or {}).values():
                for item in (topic.get("groupFilterData") or {}).values():
                    self._load_one(msgspec.convert(item, ConsumerFilter, strict=False))
        except (AttributeError, TypeError, msgspec.ValidationError) as error:
            raise ConfigError(f"{path} is not a table of selectors: {error}; repair or remove it") from error

    def _load_one(self, known: ConsumerFilter) -> None:
        if known.dead_time == 0:  # nobody can be connected to a broker that starts
            dead_ms = max(self._clock.wall_ms() - DEAD_BEFORE_START_MS, known.born_time)
            known = msgspec.structs.replace(known, dead_time=dead_ms)
        try:
            self._put(known)
        except SelectorInvalid as error:
            log.warning("the selector of %s on %s cannot be used: %s", known.consumer_group, known.topic, error)

    def _put(self, selector: ConsumerFilter) -> None:
        selection = by_expression(selector.expression, selector.expression_type)
        self._table[selector.topic, selector.consumer_group] = selector, selection
        self._of_group.setdefault(selector.consumer_group, {})[selector.topic] = None

    def get(self, topic: str, group: str) -> tuple[ConsumerFilter, Selection] | None:
        """None when the group sent none that could be used."""
        return self._table.get((topic, group))

    def subscribed(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """A heartbeat came: selectors of topics that are not in it are dead, newer versions replace older ones."""
        topics: set[str] = set()
        for data in subscriptions:
            topics.add(data.topic)
            if not is_tag_type(data.expression_type) and data.sub_string:
                self._subscribe(group, data)
        self._kill([(topic, group) for topic in self._of_group.get(group, ()) if topic not in topics])

    def _subscribe(self, group: str, data: SubscriptionData) -> None:
        key = (data.topic, group)
        known = self._table[key][0] if key in self._table else None
        if known is not None and (
            data.sub_version < known.client_version or (data.sub_version == known.client_version and not known.is_dead)
        ):
            return
        self._file.dirty = True
        if known is not None and (known.expression, known.expression_type) == (data.sub_string, data.expression_type):
            revived = msgspec.structs.replace(known, client_version=data.sub_version, dead_time=0)
            self._table[key] = revived, self._table[key][1]
            return
        try:
            self._put(
                ConsumerFilter(
                    topic=data.topic, consumer_group=group, expression=data.sub_string,
                    expression_type=data.expression_type or "", client_version=data.sub_version,
                    born_time=self._clock.wall_ms(),
                )
            )  # fmt: skip
        except SelectorInvalid as error:
            log.warning(
                "group %s: the selector %r on %s is refused: %s", group, data.sub_string[:200], data.topic, error
            )
            self._table.pop(key, None)  # its pulls are told so
            self._of_group.get(group, {}).pop(data.topic, None)

    def left(self, group: str) -> None:
        """Nobody of the group is online any more."""
        self._kill([(topic, group) for topic in self._of_group.get(group, ())])

    def _kill(self, keys: list[tuple[str, str]]) -> None:
        for key in keys:
            known, selection = self._table[key]
            if not known.is_dead:
                self._table[key] = msgspec.structs.replace(known, dead_time=self._clock.wall_ms()), selection
                self._file.dirty = True

    def content(self) -> dict[str, Any]:
        """What the file holds."""
        self._forget_the_long_dead()
        topics: dict[str, dict[str, Any]] = {}
        for (topic, group), (known, _selection) in self._table.items():
            entry = topics.setdefault(topic, {"groupFilterData": {}, "topic": topic})
            positions = {"bitNum": bloom.BITS, "bitPos": bloom.bit_positions(group, topic)}
            entry["groupFilterData"][group] = {
                **msgspec.to_builtins(known), "bloomFilterData": positions, "dead": known.is_dead,
            }  # fmt: skip
        return {"filterDataByTopic": topics}

    def _forget_the_long_dead(self) -> None:
        before = self._clock.wall_ms() - KEPT_AFTER_DEATH_MS
        self._table = {
            key: entry for key, entry in self._table.items() if not entry[0].is_dead or entry[0].dead_time > before
        }
        self._of_group = {}
        for topic, group in self._table:
            self._of_group.setdefault(group, {})[topic] = None

    def save(self) -> None:
        """Write now what changed, durably; raises StoreError."""
        if self._file.dirty:
            self._file.write(self.content())

    def save_later(self) -> None:
        """Write what changed without making the loop wait; raises StoreError when the file cannot be made."""
        self._file.write_later(self.content)
