"""Connections of a worker process: made once, kept over tasks, never carried through a fork or a pickle."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum
from typing import Final, Protocol

from gantrymq.message.queues import MessageQueue


class Pulled(Protocol):
    """A pull answer (``gantrymq.client.results.RawPull``)."""

    @property
    def status(self) -> Enum:
        """FOUND, NO_NEW_MSG, NO_MATCHED_MSG or OFFSET_ILLEGAL."""

    @property
    def data(self) -> bytes:
        """Records back to back, as the broker sent them."""

    @property
    def next_offset(self) -> int: ...

    @property
    def max_offset(self) -> int: ...


class QueueReader(Protocol):
    """What reading needs of a pull consumer. Every call may raise GantryError; ``retryable`` says which may pass."""

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """All readable queues of a topic."""

    def min_offset(self, queue: MessageQueue) -> int: ...

    def max_offset(self, queue: MessageQueue) -> int:
        """One behind the last message."""

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first message stored then or later; the end of the queue when there is none."""

    def pull_raw(self, queue: MessageQueue, offset: int, max_count: int, max_bytes: int) -> Pulled: ...


class TopicLister(Protocol):
    def topics(self) -> Sequence[str]:
        """Names of all topics that the name servers know."""


class Connections(Protocol):
    """Where a reader gets its connections from."""

    def reader(self, name_servers: str) -> QueueReader: ...

    def lister(self, name_servers: str) -> TopicLister: ...


class ProcessConnections:
    """Connections of this process. Spark reuses worker processes, so most tasks find theirs open already.

    After a fork the child starts with none: those of its parent belong to the parent's threads. They are neither used
    nor closed there.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._readers: dict[str, QueueReader] = {}
        self._listers: dict[str, TopicLister] = {}

    def _after_fork(self) -> None:
        if self._owner != os.getpid():
            self._owner = os.getpid()
            self._readers = {}
            self._listers = {}

    def reader(self, name_servers: str) -> QueueReader:
        self._after_fork()
        if name_servers not in self._readers:
            # Imported when first used: a process that only looks up formats pays nothing for it.
            from gantrymq.client.sync import PullConsumer

            consumer = PullConsumer(name_servers=name_servers)
            consumer.start()
            self._readers[name_servers] = consumer
        return self._readers[name_servers]

    def lister(self, name_servers: str) -> TopicLister:
        self._after_fork()
        if name_servers not in self._listers:
            from gantrymq.admin.blocking import Admin

            admin = Admin(name_servers)
            admin.start()
            self._listers[name_servers] = admin
        return self._listers[name_servers]


OF_THIS_PROCESS: Final = ProcessConnections()
