"""Consumer groups and their settings, stored in ``config/subscriptionGroup.json``.

Source: SubscriptionGroupManager, SubscriptionGroupConfig; docs/store.md#configuration-files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from gantrymq.broker.registries.entry_texts import body_with, file_texts, pretty_with, wire_texts
from gantrymq.broker.registries.json_file import read_json
from gantrymq.broker.registries.topics import TooMany
from gantrymq.errors import ConfigError, MessageIllegal, StoreError
from gantrymq.message import system_topics
from gantrymq.protocol.files.groups import Group as Group
from gantrymq.protocol.files.groups import GroupTable as GroupTable
from gantrymq.protocol.files.topics import DataVersion
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk, write_durably

log = logging.getLogger("gantrymq.broker")

SYSTEM_GROUPS: Final = (
    system_topics.TOOLS_CONSUMER,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    system_topics.TRANSACTION_GROUP,
)
"""Groups every Apache broker has from its first start."""


MANY: Final = 1 << 40
_FORBIDDEN_READ: Final = 1 << 2
"""Bit of a group's entry for a topic. Source: PermName.INDEX_PERM_READ."""


class Groups:
    """Group name to settings; every change is on the disk before the call returns."""

    def __init__(self, disk: Disk, clock: Clock, path: str, *, auto_create: bool, max_groups: int = 0) -> None:
        """Raises ConfigError when the file is there and cannot be read."""
        self._disk = disk
        self._clock = clock
        self._path = path
        self._auto_create = auto_create
        """Whether unknown groups are made when they are asked for."""
        self._max_groups = max_groups
        """0: no limit."""
        self._file_texts, self._wire_texts = file_texts(), wire_texts()
        self._encoded = b""
        self.follows = False
        """Whether the table is that of another broker: a group that reads here and is not in it is not written."""
        self._content = self._load()
        self._add_system_groups()

    def _add_system_groups(self) -> None:
        missing = [name for name in SYSTEM_GROUPS if name not in self._content.subscription_group_table]
        if missing:
            self._put({name: Group(group_name=name, consume_broadcast_enable=True) for name in missing})

    def _load(self) -> GroupTable:
        content = read_json(self._disk, self._path)
        if content is None:
            return GroupTable(data_version=DataVersion(state_version=0, timestamp=self._clock.wall_ms()))
        try:
            return msgspec.convert(content, GroupTable, strict=False)
        except msgspec.ValidationError as error:
            raise ConfigError(
                f"{self._path} is not a table of consumer groups: {error}; repair or remove it"
            ) from error

    def get(self, name: str) -> Group | None:
        """A group that exists."""
        return self._content.subscription_group_table.get(name)

    def find(self, name: str) -> Group | None:
        """The group; made when absent and ``autoCreateSubscriptionGroup`` allows it. None when there is none, and when
        there are too many."""
        group = self._content.subscription_group_table.get(name)
        if group is not None or not self._auto_create:
            return group
        self.make_missing((name,))
        return self._content.subscription_group_table.get(name)

    def make_missing(self, names: Iterable[str]) -> None:
        """Make those groups that do not exist, with one write, where ``autoCreateSubscriptionGroup`` allows it. Names
        that no group may have are passed over, and those for which there is no room."""
        known = self._content.subscription_group_table
        if not self._auto_create:
            return
        room = self._max_groups - len(known) if self._max_groups else len(known) + MANY
        new: dict[str, Group] = {}
        for name in names:
            if name in known or name in new or not _is_possible(name):
                continue
            if len(new) >= room:
                log.warning("consumer group %s is not made: %s", name[:128], self._full(len(known) + len(new)))
                break
            new[name] = Group(group_name=name)
        if not new:
            return
        if self.follows:
            self._remember(new)
            return
        try:
            self._put(new)
        except StoreError as error:
            # Nobody chose anything for these groups, so nothing is lost: consumers go on while the disk is full.
            log.warning("%d consumer groups (%s ...) are not on the disk yet: %s", len(new), next(iter(new)), error)
            self._remember(new)

    def _remember(self, new: dict[str, Group]) -> None:
        """Have groups that are not on the disk."""
        known = self._content.subscription_group_table
        self._content = msgspec.structs.replace(self._content, subscription_group_table=known | new)
        self._encoded = b""

    def _full(self, count: int) -> str:
        return (
            f"this broker has {count} consumer groups, and at most {self._max_groups} (maxConsumerGroups); delete "
            "groups that nobody needs, or raise it"
        )

    def allow_creation(self, allowed: bool, max_groups: int) -> None:
        """Whether unknown groups are made from now on when somebody uses them, and how many there may be."""
        self._auto_create = allowed
        self._max_groups = max_groups

    def table(self) -> GroupTable:
        return self._content

    def encoded_table(self) -> bytes:
        """``table`` as the body of an answer, which costs little however many groups there are."""
        if not self._encoded:
            empty = msgspec.structs.replace(self._content, subscription_group_table={})
            texts = self._wire_texts.of(self._content.subscription_group_table)
            self._encoded = body_with(empty.encode(), "subscriptionGroupTable", texts)
        return self._encoded

    def names(self) -> list[str]:
        return list(self._content.subscription_group_table)

    def update(self, *groups: Group) -> None:
        """Create or alter groups with one write. Raises MessageIllegal for an impossible name, and TooMany; then
        nothing is changed."""
        self.check(groups, len(groups))
        new = {group.group_name: group for group in groups}  # of two with one name the last one counts
        new = {name: group for name, group in new.items() if self.get(name) != group}
        if new:
            self._put(new)

    def check(self, groups: Sequence[Group], new: int) -> None:
        """Raises MessageIllegal when one of the last ``new`` has an impossible name, TooMany when there is no room."""
        for group in groups[len(groups) - new :]:
            system_topics.check_group(group.group_name)
        known = self._content.subscription_group_table
        made = len({group.group_name for group in groups if group.group_name not in known})
        if self._max_groups and made and len(known) + made > self._max_groups:
            raise TooMany(self._full(len(known)))

    def delete(self, *names: str) -> bool:
        """Remove groups with one write; False when none was there."""
        known = self._content.subscription_group_table
        gone = {name for name in names if name in known}
        if not gone:
            return False
        self._save({name: group for name, group in known.items() if name not in gone})
        return True

    def is_forbidden(self, group: str, topic: str) -> bool:
        """Whether the group must not read the topic."""
        table = self._content.forbidden_table
        return bool(table) and bool(table.get(group, {}).get(topic, 0) & _FORBIDDEN_READ)

    def forbid(self, group: str, topic: str, forbidden: bool) -> None:
        """Forbid a group to read a topic, or allow it again."""
        bits = self._content.forbidden_table.get(group, {})
        wanted = bits.get(topic, 0) | _FORBIDDEN_READ if forbidden else bits.get(topic, 0) & ~_FORBIDDEN_READ
        bits = {name: value for name, value in (bits | {topic: wanted}).items() if value}
        table = {name: value for name, value in (self._content.forbidden_table | {group: bits}).items() if value}
        self._save(self._content.subscription_group_table, table)

    @property
    def version(self) -> DataVersion:
        """Of the table; it changes with every change."""
        return self._content.data_version

    def take(self, content: GroupTable) -> None:
        """Have the table of another broker, with its version, from now on; durable when this returns. Raises
        StoreError; then nothing is changed."""
        self._write(content)

    def lead(self) -> None:
        """The table is this broker's own from now on."""
        self.follows = False
        self._add_system_groups()

    def _put(self, groups: dict[str, Group]) -> None:
        self._save(self._content.subscription_group_table | groups)

    def _save(self, table: dict[str, Group], forbidden: dict[str, dict[str, int]] | None = None) -> None:
        content = msgspec.structs.replace(
            self._content,
            data_version=self._content.data_version.next(self._clock.wall_ms()),
            subscription_group_table=table,
            forbidden_table=self._content.forbidden_table if forbidden is None else forbidden,
        )
        self._write(content)

    def _write(self, content: GroupTable) -> None:
        texts = self._file_texts.of(content.subscription_group_table)
        rest = msgspec.to_builtins(msgspec.structs.replace(content, subscription_group_table={}))
        write_durably(self._disk, self._path, pretty_with(rest, "subscriptionGroupTable", texts).encode())
        self._content = content
        self._encoded = b""


def _is_possible(name: str) -> bool:
    try:
        system_topics.check_group(name)
    except MessageIllegal:
        return False
    return True
