"""The connections of a Spark worker process to the cluster. They are kept from task to task, and never forked or
pickled.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Protocol

from gantrymq.spark.options.access import Access
from gantrymq.spark.source.namespace_reader import NamespaceReader, NamespaceTopics
from gantrymq.spark.source.queue_reader import QueueReader, TopicLister

if TYPE_CHECKING:
    from gantrymq.admin.blocking import Admin
    from gantrymq.client.sync import PullConsumer


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
            from gantrymq.client.keywords import PullSettings
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
            from gantrymq.client.keywords import ClientSettings

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
