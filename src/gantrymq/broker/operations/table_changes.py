"""Changes of topics and groups that came in one turn of the loop are made together, in the order in which they came.

Each change of these tables is on the disk before it is answered, and a file holds a whole table: a thousand requests
one by one would write it a thousand times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from gantrymq.broker.durability import refusal
from gantrymq.broker.operations.groups import GroupAdministration
from gantrymq.broker.operations.topics import Outcome, TopicAdministration, TopicOrder
from gantrymq.broker.refusal import Refused
from gantrymq.errors import StoreError
from gantrymq.protocol.files.groups import Group
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.gathering import Gathering

Deleted: TypeAlias = Callable[[StoreError | Refused | None], None]


@dataclass(frozen=True, slots=True)
class MakeTopics:
    """A request for topics."""

    orders: Sequence[TopicOrder]
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """A request to delete a topic."""

    topic: str
    done: Deleted


@dataclass(frozen=True, slots=True)
class MakeGroups:
    """A request for groups."""

    groups: Sequence[Group]
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """A request to delete a group."""

    name: str
    with_offsets: bool
    outcome: Outcome


Change: TypeAlias = MakeTopics | DeleteTopic | MakeGroups | DeleteGroup


class TableChanges:
    """Collects changes, and makes neighbours of one kind with one write."""

    def __init__(self, topics: TopicAdministration, groups: GroupAdministration, clock: Clock) -> None:
        self._topics = topics
        self._groups = groups
        self._gathering: Gathering[Change] = Gathering(clock, self._make)

    def add(self, change: Change) -> None:
        """It is made behind this turn of the loop. Raises Refused for what can never be done."""
        if isinstance(change, DeleteTopic):
            self._topics.check_deletion(change.topic)
        self._gathering.add(change)

    def _make(self, changes: list[Change]) -> None:
        for _, neighbours in groupby(changes, key=type):
            self._make_alike(list(neighbours))

    def _make_alike(self, changes: list[Change]) -> None:
        topics = [(change.orders, change.outcome) for change in changes if isinstance(change, MakeTopics)]
        if topics:
            self._topics.update_each(topics)
        groups = [(change.groups, change.outcome) for change in changes if isinstance(change, MakeGroups)]
        if groups:
            self._groups.update_each(groups)
        deleted = [change for change in changes if isinstance(change, DeleteTopic)]
        if deleted:
            self._delete_topics(deleted)
        left = [change for change in changes if isinstance(change, DeleteGroup)]
        if left:
            self._delete_groups(left)

    def _delete_topics(self, changes: Sequence[DeleteTopic]) -> None:
        try:
            self._topics.delete_each([(change.topic, change.done) for change in changes])
        except StoreError as error:
            for change in changes:
                change.done(error)

    def _delete_groups(self, changes: Sequence[DeleteGroup]) -> None:
        refused: Refused | None = None
        try:
            self._groups.delete(
                *(change.name for change in changes),
                with_offsets={change.name for change in changes if change.with_offsets},
            )
        except StoreError as error:
            refused = refusal(error)
        for change in changes:
            change.outcome(refused)
