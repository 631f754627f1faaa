"""The blocking admin client: the same names and signatures as in ``gantrymq.aio``, without ``await``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Unpack

from gantrymq import admin
from gantrymq.admin import DEFAULT_QUEUES, READ_WRITE, QueueStats
from gantrymq.admin.asking import Failed
from gantrymq.admin.consumers import GroupProgress
from gantrymq.client.connection import portal
from gantrymq.client.connection.blocking import Blocking
from gantrymq.client.connection.endpoint import Outside
from gantrymq.client.keywords import ClientSettings
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.bodies.route import ClusterInfo, TopicRoute

FOREVER_MS: Final = 2**63 - 1


class Admin(Blocking["admin.Admin"]):
    """Questions and commands about the topics of a cluster; see ``gantrymq.aio.Admin``. Starts with its first call."""

    def __init__(
        self,
        name_servers: str | Iterable[str],
        *,
        outside: Outside | None = None,
        failed: Failed | None = None,
        **settings: Unpack[ClientSettings],
    ) -> None:
        """``failed``: told of each question that failed, in the thread of the clients. ``settings``: fields of
        ClientConfig.
        """
        super().__init__(admin.Admin(name_servers, outside=outside, failed=failed, **settings))

    def create_topic(
        self,
        topic: str,
        queues: int = DEFAULT_QUEUES,
        message_type: str | None = None,
        cluster: str | None = None,
        perm: int = READ_WRITE,
        order: bool = False,
        *,
        hide_messages: bool = False,
    ) -> None:
        """Make or change a topic; returns when the name servers know it; see ``gantrymq.aio.Admin.create_topic``."""

        async def work() -> None:
            await self._client.create_topic(
                topic, queues, message_type, cluster, perm, order, hide_messages=hide_messages
            )

        self._call(work)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove a topic with its messages."""
        self._call(self._client.delete_topic, topic, cluster)

    def topics(self) -> list[str]:
        """The names of all topics the name servers know, system topics included, sorted."""
        return self._call(self._client.topics)

    def route(self, topic: str) -> TopicRoute:
        """Which brokers hold a topic, in how many queues, and where they are."""
        return self._call(self._client.route, topic)

    def cluster_info(self) -> ClusterInfo:
        """Clusters, their brokers, and where those are."""
        return self._call(self._client.cluster_info)

    def queue_stats(self, topic: str) -> list[QueueStats]:
        """What every queue of a topic holds, in order."""
        return self._call(self._client.queue_stats, topic)

    @property
    def messages(self) -> Messages:
        """Finds single messages."""
        return Messages(self._client, self._open_portal().call)

    @property
    def consumers(self) -> Consumers:
        """How far groups are."""
        return Consumers(self._client, self._open_portal().call)

    def _open_portal(self) -> portal.Portal:
        if self._portal is None and not self._closed:
            self.start()
        return super()._open_portal()


class Consumers:
    """How far groups are; see ``gantrymq.admin.consumers.Consumers``, which has more."""

    def __init__(self, client: admin.Admin, call: Callable[..., Any]) -> None:
        self._client = client
        self._call = call

    def progress(self, group: str, topic: str | None = None) -> GroupProgress:
        """How far a group is. Raises RequestRejected when every broker refuses."""
        found: GroupProgress = self._call(self._client.consumers.progress, group, topic)
        return found


class Messages:
    """Finds single messages; see ``gantrymq.admin.messages.Messages``."""

    def __init__(self, client: admin.Admin, call: Callable[..., Any]) -> None:
        self._client = client
        self._call = call

    def by_place_id(self, message_id: str) -> MessageView | None:
        """The message an offset message id names; None when it is gone."""
        found: MessageView | None = self._call(self._client.messages.by_place_id, message_id)
        return found

    def by_unique_key(self, topic: str, unique_key: str) -> list[MessageView]:
        """Messages with this UNIQ_KEY; more than one when a send was repeated."""
        found: list[MessageView] = self._call(self._client.messages.by_unique_key, topic, unique_key)
        return found

    def by_key(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = FOREVER_MS, count: int = 64
    ) -> list[MessageView]:
        """Messages with this word among their KEYS."""

        async def work() -> list[MessageView]:
            return await self._client.messages.by_key(topic, key, begin_ms=begin_ms, end_ms=end_ms, count=count)

        found: list[MessageView] = self._call(work)
        return found

    def at(self, queue: MessageQueue, offset: int) -> MessageView | None:
        """The message at a place; None when nothing lies there."""
        found: MessageView | None = self._call(self._client.messages.at, queue, offset)
        return found
