"""Consumer groups and their settings, stored in ``config/subscriptionGroup.json``.

Source: SubscriptionGroupManager, SubscriptionGroupConfig; docs/store.md#configuration-files.
"""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from gantrymq.broker.registries.json_file import read_json, write_json
from gantrymq.errors import ConfigError, MessageIllegal, StoreError
from gantrymq.message import system_topics
from gantrymq.protocol.bodies.groups import Group as Group
from gantrymq.protocol.bodies.groups import GroupTable as GroupTable
from gantrymq.protocol.bodies.topics import DataVersion
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.disk import Disk

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


_FORBIDDEN_READ: Final = 1 << 2
"""Bit of a group's entry for a topic. Source: PermName.INDEX_PERM_READ."""


class Groups:
    """Group name to settings; every change is on the disk before the call returns."""

    def __init__(self, disk: Disk, clock: Clock, path: str, *, auto_create: bool) -> None:
        """Raises ConfigError when the file is there and cannot be read."""
        self._disk = disk
        self._clock = clock
        self._path = path
        self._auto_create = auto_create
        """Whether unknown groups are made when they are asked for."""
        self._content = self._load()
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
        """The group; made when absent and ``autoCreateSubscriptionGroup`` allows it. None when there is none."""
        group = self._content.subscription_group_table.get(name)
        if group is not None or not self._auto_create:
            return group
        try:
            system_topics.check_group(name)
        except MessageIllegal:
            return None
        group = Group(group_name=name)
        try:
            self._put({name: group})
        except StoreError as error:
            # Nobody chose anything for this group, so nothing is lost: consumers go on reading while the disk is full.
            log.warning("consumer group %s is not on the disk yet: %s", name, error)
            table = self._content.subscription_group_table | {name: group}
            self._content = msgspec.structs.replace(self._content, subscription_group_table=table)
        return group

    def allow_creation(self, allowed: bool) -> None:
        """Whether unknown groups are made from now on when somebody uses them."""
        self._auto_create = allowed

    def table(self) -> GroupTable:
        return self._content

    def names(self) -> list[str]:
        return list(self._content.subscription_group_table)

    def update(self, *groups: Group) -> None:
        """Create or alter groups with one write. Raises MessageIllegal for an impossible name, and nothing is
        changed."""
        for group in groups:
            system_topics.check_group(group.group_name)
        new = {group.group_name: group for group in groups}  # of two with one name the last one counts
        new = {name: group for name, group in new.items() if self.get(name) != group}
        if new:
            self._put(new)

    def delete(self, name: str) -> bool:
        """False when it was not there."""
        table = dict(self._content.subscription_group_table)
        if table.pop(name, None) is None:
            return False
        self._save(table)
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

    def _put(self, groups: dict[str, Group]) -> None:
        self._save(self._content.subscription_group_table | groups)

    def _save(self, table: dict[str, Group], forbidden: dict[str, dict[str, int]] | None = None) -> None:
        content = msgspec.structs.replace(
            self._content,
            data_version=self._content.data_version.next(self._clock.wall_ms()),
            subscription_group_table=table,
            forbidden_table=self._content.forbidden_table if forbidden is None else forbidden,
        )
        write_json(self._disk, self._path, msgspec.to_builtins(content))
        self._content = content
