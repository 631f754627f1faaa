"""Operators create, show and delete consumer groups here. Source: AdminBrokerProcessor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from msgspec import structs

from gantrymq.broker.durability import refusal
from gantrymq.broker.operations.group_attributes import changed
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import TooMany
from gantrymq.errors import MessageIllegal, StoreError
from gantrymq.protocol.files.groups import Group, GroupTable

MAX_AT_ONCE: Final = 5_000
"""Groups of one request."""


class GroupAdministration:
    """Makes, shows and removes consumer groups."""

    def __init__(self, groups: Groups, offsets: ConsumerOffsets) -> None:
        self._groups = groups
        self._offsets = offsets

    def update_each(self, wanted: Sequence[tuple[Sequence[Group], Callable[[Refused | None], None]]]) -> None:
        """Make or alter the groups of several requests with one write: those of a request all or, when one cannot be,
        none. The outcomes are called with the refusal, or with None."""
        groups: list[Group] = []
        made: list[Callable[[Refused | None], None]] = []
        for asked, outcome in wanted:
            try:
                some = [self._with_attributes(group, groups) for group in asked]
                self._check([*groups, *some], len(some))
            except Refused as refused:
                outcome(refused)
                continue
            groups += some
            made.append(outcome)
        refused_all: Refused | None = None
        try:
            self._groups.update(*groups)
        except StoreError as error:
            refused_all = refusal(error)
        for outcome in made:
            outcome(refused_all)

    def _with_attributes(self, group: Group, before: Sequence[Group]) -> Group:
        """A group as it is stored; ``before``: what is ordered already, and not in the table yet."""
        known = self._groups.get(group.group_name)
        for other in before:
            known = other if other.group_name == group.group_name else known
        current = {} if known is None else known.attributes
        return structs.replace(group, attributes=changed(current, group.attributes))

    def _check(self, groups: Sequence[Group], new: int) -> None:
        if new > MAX_AT_ONCE:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"the list names {new} groups; at most {MAX_AT_ONCE} can be made by one request, send several",
            )
        try:
            self._groups.check(groups, new)
        except MessageIllegal as error:
            raise Refused(Refusal.PARAMETER_INVALID, str(error)) from error
        except TooMany as error:
            raise Refused(Refusal.NOT_PERMITTED, str(error)) from error

    def delete(self, *names: str, with_offsets: Collection[str] = ()) -> None:
        """Remove groups, and how far those of ``with_offsets`` had read. Raises StoreError."""
        self._groups.delete(*names)
        for name in with_offsets:
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

    def encoded_table(self) -> bytes:
        """The same as the body of an answer."""
        return self._groups.encoded_table()

    def allow(self, group: str, topic: str, readable: bool) -> None:
        """Allow a group to read a topic, or forbid it."""
        self._groups.forbid(group, topic, not readable)

    def may_read(self, group: str, topic: str) -> bool:
        """Whether the group may read the topic."""
        return not self._groups.is_forbidden(group, topic)
