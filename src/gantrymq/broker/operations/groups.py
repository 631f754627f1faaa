"""Operators create, show and delete consumer groups here. Source: AdminBrokerProcessor."""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.groups import Group, Groups
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.errors import MessageIllegal
from gantrymq.protocol.bodies.groups import GroupTable


class GroupAdministration:
    """Makes, shows and removes consumer groups."""

    def __init__(self, groups: Groups, offsets: ConsumerOffsets) -> None:
        self._groups = groups
        self._offsets = offsets

    def update(self, groups: Sequence[Group]) -> None:
        """Make or alter groups: all or, when one cannot be, none."""
        try:
            self._groups.update(*groups)
        except MessageIllegal as error:
            raise Refused(Refusal.PARAMETER_INVALID, str(error)) from error

    def delete(self, name: str, *, with_offsets: bool) -> None:
        """Remove a group, and how far it had read when ``with_offsets``."""
        self._groups.delete(name)
        if with_offsets:
            self._offsets.forget_group(name)

    def get(self, name: str) -> Group:
        """The settings of a group."""
        group = self._groups.get(name)
        if group is None:
            raise Refused(Refusal.GROUP_UNKNOWN, f"No group in this broker. group: {name}")
        return group

    def table(self) -> GroupTable:
        """The settings of all groups."""
        return self._groups.table()

    def allow(self, group: str, topic: str, readable: bool) -> None:
        """Allow a group to read a topic, or forbid it."""
        self._groups.forbid(group, topic, not readable)

    def may_read(self, group: str, topic: str) -> bool:
        """Whether the group may read the topic."""
        return not self._groups.is_forbidden(group, topic)
