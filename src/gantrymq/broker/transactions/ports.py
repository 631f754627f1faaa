"""The interfaces of the broker's registries that transactions need."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from gantrymq.broker.client import Client, Connection


class ProducerGroups(Protocol):
    """The connected members of producer groups, by their heartbeats."""

    def pick(self, group: str, turn: int | None = None, topic: str = "") -> Connection | None:
        """A live member of the group that reads what it is sent, round robin; None when there is none. ``turn``: the
        next number gives another member. ``topic``: only one that may see undecided messages of it."""

    def members(self, group: str) -> Sequence[object]:
        """All online members of the group."""

    def is_member(self, group: str, client: Client) -> bool: ...

    def client_ids(self, client: Client) -> Collection[str]:
        """What the heartbeats of a connection said who it is; also while it is being closed."""

    def connection_of(self, client_id: str) -> Client | None:
        """An open connection of that client; None when there is none."""


class TopicQueues(Protocol):
    """How many queues a topic has."""

    @property
    def read_queue_nums(self) -> int: ...


class TopicLookup(Protocol):
    """The topics of this broker."""

    def get(self, topic: str) -> TopicQueues | None:
        """Its configuration; None when there is no such topic."""

    def ensure(self, topic: str, queues: int) -> object:
        """The topic; made when absent. Raises StoreError when that cannot be kept."""


class OffsetBook(Protocol):
    """Durable consumer offsets; those of CID_RMQ_SYS_TRANS are written here."""

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None: ...
