"""Live producers and consumers, as their heartbeats describe them. Nothing here survives the broker.

Source: ProducerManager, ConsumerManager, ConsumerGroupInfo; docs/protocol.md#groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from gantrymq.broker.client import Client, Connection
from gantrymq.broker.filtering.selection import EVERYTHING, Selection, is_tag_type
from gantrymq.message.heartbeat import ALL, ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel, SubscriptionData
from gantrymq.message.transaction import OPERATOR_CLIENT


@dataclass(slots=True)
class Member:
    """One client in one group, on one connection."""

    connection: Connection
    client_id: str
    language: str
    version: int
    heard_at: float
    """Seconds by the broker's monotonic clock."""


class ProducerGroups:
    """Producer group to its live members. A check-back goes to one of them."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[int, Member]] = {}
        self._turns: dict[str, int] = {}
        self._clients: dict[str, Connection] = {}
        """Connection id to the connection that last said it."""
        self._client_ids: dict[int, set[str]] = {}
        """Connection id to its last heartbeat."""
        self.came: list[Callable[[str, Client], None]] = []
        """Called with client id and connection when a connection says for the first time that it is of a group, ahead
        of ``joined``."""
        self.joined: list[Callable[[str], None]] = []
        """Called with the group when a new member joined it: work that waits for a member can continue."""
        self.may_see: Callable[[Connection, str], bool] | None = None
        """Whether a connection may get undecided messages of a topic; None: every one may."""

    def register(self, group: str, member: Member) -> None:
        """A heartbeat of a member; the latest one of a connection counts."""
        members = self._groups.setdefault(group, {})
        new = member.connection.id not in members
        members[member.connection.id] = member
        self._clients[member.client_id] = member.connection
        self._client_ids.setdefault(member.connection.id, set()).add(member.client_id)
        if new and not member.client_id.endswith(OPERATOR_CLIENT):
            for hear in self.came:
                hear(member.client_id, member.connection)
            for listener in self.joined:
                listener(group)

    def is_member(self, group: str, client: Client) -> bool:
        return client.id in self._groups.get(group, ())

    def unregister(self, group: str, connection: Connection) -> None:
        """A member leaves in order."""
        members = self._groups.get(group)
        if members is not None and members.pop(connection.id, None) is not None and not members:
            self._forget(group)

    def connection_closed(self, connection: Connection) -> list[str]:
        """A connection ended; returns the groups it was in."""
        left = [group for group, members in self._groups.items() if connection.id in members]
        for group in left:
            self.unregister(group, connection)
        for client_id in self._client_ids.pop(connection.id, ()):
            if self._clients.get(client_id) is connection:
                del self._clients[client_id]
        return left

    def client_ids(self, client: Client) -> Collection[str]:
        return self._client_ids.get(client.id, ())

    def connection_of(self, client_id: str) -> Connection | None:
        for members in self._groups.values():
            for member in members.values():
                if member.client_id == client_id and member.connection.alive:
                    return member.connection
        return None

    def session_of(self, client_id: str) -> Connection | None:
        """The connection of a producer by its client id; None when it is not here."""
        return self._clients.get(client_id)

    def expire(self, before: float) -> None:
        """Drop members not heard of since ``before``."""
        for group, members in list(self._groups.items()):
            for number in [number for number, member in members.items() if member.heard_at < before]:
                del members[number]
            if not members:
                self._forget(group)

    def _forget(self, group: str) -> None:
        del self._groups[group]
        self._turns.pop(group, None)

    def pick(self, group: str, turn: int | None = None, topic: str = "") -> Connection | None:
        """The connection of a live member; None when no member is online.

        It is a different one each time. ``turn``: a different one for each number, whatever was picked in between, so
        that who asks again with the next number gets another member.

        Members that do not read what was sent to them are skipped, and so are operators' tools, which have no checker.
        ``topic``: members that may not send to it are skipped (``may_see``).
        """
        members = self._groups.get(group)
        if not members:
            return None
        usable = [
            member.connection
            for member in members.values()
            if member.connection.alive and member.connection.writable and not member.client_id.endswith(OPERATOR_CLIENT)
        ]
        if self.may_see is not None:
            usable = [connection for connection in usable if self.may_see(connection, topic)]
        if not usable:
            return None
        if turn is None:
            turn = self._turns.get(group, 0)
            self._turns[group] = turn + 1
        return usable[turn % len(usable)]

    def has_producer(self, group: str) -> bool:
        """Whether a member is online that may be asked; operators' tools are none."""
        return any(
            member.connection.alive and not member.client_id.endswith(OPERATOR_CLIENT)
            for member in self._groups.get(group, {}).values()
        )

    def members(self, group: str) -> list[Member]:
        return list(self._groups.get(group, {}).values())

    def groups(self) -> list[str]:
        return list(self._groups)


@dataclass(slots=True)
class Subscription:
    """What a group reads of one topic."""

    data: SubscriptionData
    selection: Selection
    """What it wants by tags; subscriptions of other types have theirs in ``ConsumerFilters``."""
    is_tag: bool

    @classmethod
    def of(cls, data: SubscriptionData) -> Subscription:
        everything = data.sub_string in ("", ALL) or not data.code_set
        selection = EVERYTHING if everything else Selection(frozenset(data.code_set))
        return cls(data, selection, is_tag_type(data.expression_type))


def selector_of(data: SubscriptionData) -> str:
    """What a subscription selects, as one text: the same for two that select the same. The order of tags does not
    matter."""
    if not is_tag_type(data.expression_type):
        return f"{data.expression_type}: {data.sub_string}"
    tags = sorted({tag.strip() for tag in data.sub_string.split("||")} - {""})
    return ALL if not tags or tags == [ALL] else " || ".join(tags)


@dataclass(slots=True)
class ConsumerGroup:
    """A group with at least one live member. Its subscriptions belong to the group, not to a connection."""

    consume_type: ConsumeType
    message_model: MessageModel
    consume_from_where: ConsumeFromWhere
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)
    wants: dict[int, dict[str, str]] = field(default_factory=dict)
    """By connection id: topic to selector, as the last heartbeat of each member said it."""

    def conflicts(self) -> dict[str, dict[str, list[str]]]:
        """Topics that members select from in different ways: selector to the ids of the clients that have it."""
        found: dict[str, dict[str, list[str]]] = {}
        for number, wants in self.wants.items():
            for topic, selector in wants.items():
                found.setdefault(topic, {}).setdefault(selector, []).append(self.members[number].client_id)
        return {
            topic: {selector: sorted(clients) for selector, clients in sorted(by_selector.items())}
            for topic, by_selector in sorted(found.items())
            if len(by_selector) > 1
        }


class ConsumerGroups:
    """Consumer group to members and subscriptions."""

    def __init__(self) -> None:
        self._groups: dict[str, ConsumerGroup] = {}

    def get(self, group: str) -> ConsumerGroup | None:
        """A group that is online."""
        return self._groups.get(group)

    def register(self, data: ConsumerData, member: Member, *, keep_subscriptions: bool = False) -> bool:
        """A heartbeat of a member. True when the group changed so that its members must share the queues anew:
        a new connection, or a topic that came or went (not a newer version of the same topics).

        ``keep_subscriptions``: heartbeat version 2 without subscriptions; the known ones stay.
        """
        group = self._groups.get(data.group_name)
        if group is None:
            group = self._groups[data.group_name] = ConsumerGroup(
                data.consume_type, data.message_model, data.consume_from_where
            )
        changed = member.connection.id not in group.members
        group.members[member.connection.id] = member
        if not keep_subscriptions:
            group.wants[member.connection.id] = {one.topic: selector_of(one) for one in data.subscription_data_set}
        if keep_subscriptions:
            return changed
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        return self._subscribe(group, data.subscription_data_set) or changed

    def _subscribe(self, group: ConsumerGroup, wanted: Iterable[SubscriptionData]) -> bool:
        before = group.subscriptions.keys()
        after: dict[str, Subscription] = {}
        for data in wanted:
            known = group.subscriptions.get(data.topic)
            after[data.topic] = (
                Subscription.of(data) if known is None or data.sub_version > known.data.sub_version else known
            )
        changed = before != after.keys()
        group.subscriptions = after
        return changed

    def unregister(self, group_name: str, connection: Connection) -> bool:
        """A member leaves; True when it was one."""
        group = self._groups.get(group_name)
        if group is None or group.members.pop(connection.id, None) is None:
            return False
        group.wants.pop(connection.id, None)
        if not group.members:
            del self._groups[group_name]
        return True

    def connection_closed(self, connection: Connection) -> list[str]:
        """A connection ended; returns the groups it was in."""
        return [name for name in list(self._groups) if self.unregister(name, connection)]

    def expire(self, before: float) -> list[str]:
        """Drop members not heard of since ``before``; returns the groups that lost one."""
        shrunk: list[str] = []
        for name, group in list(self._groups.items()):
            late = [member.connection for member in group.members.values() if member.heard_at < before]
            for connection in late:
                self.unregister(name, connection)
            if late:
                shrunk.append(name)
        return shrunk

    def client_ids(self, group_name: str) -> list[str]:
        """Ids of the live members, each once, in the order they came."""
        group = self._groups.get(group_name)
        if group is None:
            return []
        return list(dict.fromkeys(member.client_id for member in group.members.values()))

    def client_ids_of(self, connection: Connection) -> dict[str, str]:
        """Group to the client id that a connection has there."""
        found = {name: group.members.get(connection.id) for name, group in self._groups.items()}
        return {name: member.client_id for name, member in found.items() if member is not None}

    def groups(self) -> list[str]:
        return list(self._groups)

    def groups_reading(self, topic: str) -> list[str]:
        """Groups online that subscribe to a topic."""
        return [name for name, group in self._groups.items() if topic in group.subscriptions]
