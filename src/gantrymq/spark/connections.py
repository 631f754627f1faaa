"""The connections of a Spark worker process to the cluster. They are kept from task to task, and never forked or
pickled.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from gantrymq.client.consuming.filters import EVERYTHING, Filter
from gantrymq.errors import GantryError
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.spark.access import Access
from gantrymq.spark.namespace_reader import NamespaceReader, NamespaceTopics

if TYPE_CHECKING:
    from gantrymq.admin.blocking import Admin
    from gantrymq.client.sync import PullConsumer


class Pulled(Protocol):
    """A pull answer (``gantrymq.client.results.RawPull``)."""

    @property
    def status(self) -> Enum:
        """FOUND, NO_NEW_MSG, NO_MATCHED_MSG or OFFSET_ILLEGAL."""

    @property
    def data(self) -> bytes:
        """The records, one after the other, as the broker sent them."""

    @property
    def next_offset(self) -> int: ...

    @property
    def min_offset(self) -> int: ...

    @property
    def max_offset(self) -> int: ...


class QueueReader(Protocol):
    """The methods of a pull consumer that reading needs. Every call may raise GantryError; ``retryable`` tells whether
    the call may succeed later."""

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """All readable queues of a topic."""

    def known_route(self, topic: str) -> TopicRoute | None:
        """What this process knows of the brokers of a topic, without asking anybody."""

    def introduce(self, topic: str, route: TopicRoute) -> None:
        """Take over what another process knows of the brokers of a topic, unless this one knows the topic."""

    def min_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueOffset]:
        """The offset of the oldest message of each queue."""

    def max_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueOffset]:
        """The offset after the last message of each queue."""

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The offset of the first message stored at ``timestamp_ms`` or later; without one, the end of the queue."""

    def pull_raw(
        self, queue: MessageQueue, offset: int, max_count: int, max_bytes: int, selection: Filter = EVERYTHING
    ) -> Pulled:
        """Messages from ``offset`` on, undecoded. Of a tag expression the broker compares hashes only."""

    def pull_raw_each(
        self, wanted: Sequence[tuple[MessageQueue, int, int]], max_bytes: int, selection: Filter = EVERYTHING
    ) -> Sequence[Pulled | GantryError]:
        """``pull_raw`` of several queues at the same time, each given with its offset and its ``max_count``."""

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the progress of the reader's group."""


class TopicLister(Protocol):
    def topics(self) -> Sequence[str]:
        """Names of all topics that the name servers know."""


class Connections(Protocol):
    """The source of a reader's connections."""

    def reader(self, name_servers: str, access: Access, group: str | None = None) -> QueueReader: ...

    def lister(self, name_servers: str, access: Access) -> TopicLister: ...


class ProcessConnections:
    """The connections of this process. Spark reuses worker processes, so most tasks find an open connection.

    A forked child starts without connections. It neither uses nor closes those of its parent, because they belong to
    the parent's threads.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._readers: dict[tuple[str, Access, str | None], QueueReader] = {}
        self._listers: dict[tuple[str, Access], TopicLister] = {}
        self._clients: list[PullConsumer | Admin] = []

    def _after_fork(self) -> None:
        if self._owner != os.getpid():
            self._owner = os.getpid()
            self._readers, self._listers, self._clients = {}, {}, []

    def reader(self, name_servers: str, access: Access, group: str | None = None) -> QueueReader:
        self._after_fork()
        key = (name_servers, access, group)
        if key not in self._readers:
            # Imported here, so that a process that only looks up formats does not import it.
            from gantrymq.client.config import PullSettings
            from gantrymq.client.sync import PullConsumer

            settings = {**access.client_settings(PullSettings.__annotations__), **access.timeouts()}
            consumer = PullConsumer(group, name_servers=name_servers, **settings)
            consumer.start()
            self._clients.append(consumer)
            namespace = access.namespace
            self._readers[key] = NamespaceReader(consumer, namespace) if namespace else consumer
        return self._readers[key]

    def lister(self, name_servers: str, access: Access) -> TopicLister:
        self._after_fork()
        key = (name_servers, access)
        if key not in self._listers:
            from gantrymq.admin.blocking import Admin
            from gantrymq.client.config import ClientSettings

            admin = Admin(name_servers, **access.client_settings(ClientSettings.__annotations__))
            admin.start()
            self._clients.append(admin)
            self._listers[key] = NamespaceTopics(admin, access.namespace) if access.namespace else admin
        return self._listers[key]

    def close(self) -> None:
        """Close all connections of this process; the next reader opens new ones. Workers of Spark never do that."""
        self._after_fork()
        clients, self._readers, self._listers, self._clients = self._clients, {}, {}, []
        for client in clients:
            client.close()


OF_THIS_PROCESS: Final = ProcessConnections()
