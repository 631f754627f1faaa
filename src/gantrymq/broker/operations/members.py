"""Heartbeats, the members of groups, and the locks of queues.

Source: ClientManageProcessor, ConsumerManageProcessor, RebalanceLockManager; docs/protocol.md#groups,
docs/protocol.md#locks-of-queues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from gantrymq.broker.announcement import Announce
from gantrymq.broker.client import Connection
from gantrymq.broker.filtering.subscriptions import check_selector
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import Member
from gantrymq.broker.registries.registries import Registries
from gantrymq.errors import MessageIllegal, StoreError
from gantrymq.message import system_topics
from gantrymq.message.heartbeat import ConsumerData, Heartbeat, MessageModel, SubscriptionData
from gantrymq.message.queues import MessageQueue
from gantrymq.runtime.clock import Clock

log = logging.getLogger("gantrymq.broker")

MAX_GROUPS: Final = 1_000
"""Consumer groups of one heartbeat, and producer groups. A program has a handful of each."""
MAX_SUBSCRIPTIONS: Final = 2_000
"""Subscriptions of all groups of one heartbeat."""
MAX_LOCKS: Final = 20_000
"""Queues of one request for locks."""
MAX_EXPRESSIONS: Final = 262_144
"""Characters of the expressions of all subscriptions of one heartbeat."""


WARN_SECONDS: Final = 60.0
"""Between two warnings about the selectors of one group."""
WARNED_MAX: Final = 10_000
"""Groups of which the last warning is remembered."""


def _check_size(data: Heartbeat) -> None:
    subscriptions = [one for group in data.consumer_data_set for one in group.subscription_data_set]
    for what, count, most in (
        ("consumer groups", len(data.consumer_data_set), MAX_GROUPS),
        ("producer groups", len(data.producer_data_set), MAX_GROUPS),
        ("subscriptions", len(subscriptions), MAX_SUBSCRIPTIONS),
        ("characters of expressions", sum(len(one.sub_string) for one in subscriptions), MAX_EXPRESSIONS),
    ):
        if count > most:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"the heartbeat has {count} {what}; one client may have at most {most}. Give some of them to another "
                "client (an instanceName of its own, or another process)",
            )


class Members:
    """Takes heartbeats, notices members that leave or fall silent, and shares out what only one of them may read."""

    def __init__(
        self,
        config: LiveConfig,
        registries: Registries,
        clock: Clock,
        announce: Announce,
    ) -> None:
        self._config = config
        self._topics = registries.topics
        self._groups = registries.groups
        self._producers = registries.producers
        self._consumers = registries.consumers
        self._filters = registries.filters
        self._locks = registries.locks
        self._clock = clock
        self._announce = announce
        self._warned: dict[str, float] = {}
        """Group to when it may be said again that its members select different messages."""

    def heartbeat(
        self, connection: Connection, data: Heartbeat, language: str, version: int, done: Callable[[], None]
    ) -> None:
        """A client says which groups it is a member of.

        ``done`` is called at once, except after the first heartbeat of a group, which makes the group's retry topic:
        then once the name servers know that topic, because the client looks for its route next, and then only every
        30 s.
        """
        if not data.client_id:
            raise Refused(Refusal.FAILED, "the heartbeat has no clientID")
        _check_size(data)
        member = Member(connection, data.client_id, language, version, self._clock.monotonic())
        keep = bool(data.without_sub)
        # Together, before the groups one by one: each file holds a whole table.
        self._groups.make_missing([consumer.group_name for consumer in data.consumer_data_set])
        topic_made = self._make_retry_topics(data.consumer_data_set)
        for consumer in data.consumer_data_set:
            self._register_consumer(consumer, member, keep)
        for producer in data.producer_data_set:
            self._producers.register(producer.group_name, member)
        if topic_made:
            self._announce(done)
        else:
            done()

    def check_subscription(self, group: str, data: SubscriptionData) -> None:
        """A client asks this before it subscribes. Raises Refused when the subscription cannot be used here."""
        check_selector(self._config, group, data)

    def _register_consumer(self, data: ConsumerData, member: Member, keep: bool) -> None:
        try:
            settings = self._groups.find(data.group_name)
        except MessageIllegal as error:
            raise Refused(Refusal.FAILED, str(error)) from error
        if settings is None:
            log.warning(
                "consumer group %s of %s does not exist and may not be made", data.group_name, member.connection.address
            )
            return
        before = self._wants(data.group_name, member)
        if self._consumers.register(data, member, keep_subscriptions=keep):
            self._notify(data.group_name)
        if self._wants(data.group_name, member) != before:
            self._warn_of_conflicts(data.group_name)
        if not keep:
            self._filters.subscribed(data.group_name, data.subscription_data_set)

    def _wants(self, group_name: str, member: Member) -> dict[str, str] | None:
        group = self._consumers.get(group_name)
        return None if group is None else group.wants.get(member.connection.id)

    def _warn_of_conflicts(self, group_name: str) -> None:
        """Say that members of a group select different messages, once in a while: the group skips some of them."""
        group, now = self._consumers.get(group_name), self._clock.monotonic()
        conflicts = group.conflicts() if group is not None else {}
        if not conflicts or now < self._warned.get(group_name, now):
            return
        if len(self._warned) >= WARNED_MAX:
            self._warned.clear()
        self._warned[group_name] = now + WARN_SECONDS
        topic, selectors = next(iter(conflicts.items()))
        some = list(selectors.items())[:4]
        texts = "; ".join(f"{selector[:128]!r} by {', '.join(clients[:3])}" for selector, clients in some)
        log.warning(
            "members of the consumer group %s select different messages of the topic %s: %s. A group has one "
            "subscription, that of the newest heartbeat, so each message that it does not select is skipped for the "
            "whole group. Give members with another selector a group of their own, or stop the old ones first "
            "(gantry group show %s)",
            group_name, topic, texts, group_name,
        )  # fmt: skip

    def _make_retry_topics(self, groups: Sequence[ConsumerData]) -> bool:
        """False when all are there already, or could not be made."""
        wanted: dict[str, int] = {}
        for data in groups:
            settings = self._groups.get(data.group_name)
            if settings is not None and data.message_model is not MessageModel.BROADCASTING:
                wanted[system_topics.retry_topic(data.group_name)] = max(settings.retry_queue_nums, 1)
        try:
            return bool(self._topics.ensure_all(wanted))
        except StoreError as error:
            # A full disk must not end the membership of a group; the next heartbeat tries again.
            log.warning("the retry topics of %s could not be made: %s", ", ".join(list(wanted)[:10]), error)
            return False

    def _notify(self, group_name: str) -> None:
        """Tell every member that the queues must be shared again."""
        group = self._consumers.get(group_name)
        settings = self._groups.get(group_name)
        if group is None or group.message_model is MessageModel.BROADCASTING:
            return
        if not self._config.groups.notify_consumer_ids_changed_enable:
            return
        if settings is not None and not settings.notify_consumer_ids_changed_enable:
            return
        for member in group.members.values():
            member.connection.members_changed(group_name)

    def unregister(self, connection: Connection, producer_group: str | None, consumer_group: str | None) -> None:
        """A client leaves groups in order; one without a name is passed over."""
        if producer_group:
            self._producers.unregister(producer_group, connection)
        if consumer_group and self._consumers.unregister(consumer_group, connection):
            self._shrunk(consumer_group)

    def connection_closed(self, connection: Connection, *, by_peer: bool = False) -> None:
        """A connection ended: its client leaves all groups. ``by_peer``: it was not this broker that ended it."""
        self._producers.connection_closed(connection)
        client_ids = self._consumers.client_ids_of(connection)
        for group in self._consumers.connection_closed(connection):
            self._shrunk(group)
            if by_peer and client_ids[group] not in self._consumers.client_ids(group):
                self._release_later(group, client_ids[group])

    def _release_later(self, group: str, client_id: str) -> None:
        """A member that holds locks may have died: give its queues to the others if it does not come back."""
        grace_ms, now = self._config.groups.orderly_lock_grace, self._clock.monotonic()
        if grace_ms < 0:
            return

        def look() -> None:
            if self._locks.has_ended(group, client_id, self._clock.monotonic()):
                log.info("group %s may lock the queues of %s, which has no connection any more", group, client_id)
                self._notify(group)

        for deadline in self._locks.holder_gone(group, client_id, now, grace_ms / 1000):
            self._clock.call_later(deadline - now, look)

    def expire(self) -> None:
        """Remove members that sent no heartbeat for too long, and locks that expired."""
        now = self._clock.monotonic()
        before = now - self._config.groups.channel_expired_timeout / 1000
        self._producers.expire(before)
        for group in self._consumers.expire(before):
            self._shrunk(group)
        self._locks.expire(now)

    def _shrunk(self, group: str) -> None:
        """A group lost a member."""
        if self._consumers.get(group) is None:
            self._filters.left(group)
        self._notify(group)

    def client_ids(self, group: str) -> list[str]:
        """The members of a consumer group, each once, in the order they came."""
        found = self._consumers.client_ids(group)
        if not found:
            raise Refused(Refusal.FAILED, f"no consumer for this group, {group}")
        return found

    def lock(
        self, group: str, client_id: str, queues: list[MessageQueue], *, ends_with_connection: bool = False
    ) -> list[MessageQueue]:
        """Take or renew locks of queues; returns those that the client holds now. ``ends_with_connection``: it hands
        out no further message while it has no connection."""
        if len(queues) > MAX_LOCKS:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"{len(queues)} queues are too many; lock at most {MAX_LOCKS} with one request, send several",
            )
        now = self._clock.monotonic()
        return self._locks.lock(group, client_id, queues, now, ends_with_connection=ends_with_connection)

    def unlock(self, group: str, client_id: str, queues: list[MessageQueue]) -> None:
        """Give up locks."""
        self._locks.unlock(group, client_id, queues)
