"""The users of a broker: who they are, and what they may be given. A broker without users has no such object."""

from __future__ import annotations

from dataclasses import dataclass

from gantrymq.access.guard import Guard
from gantrymq.access.opening import Access
from gantrymq.broker.message_rights import MessageRights
from gantrymq.broker.registries.registries import Registries
from gantrymq.broker.transactions.coordinator import TransactionCoordinator
from gantrymq.errors import GantryError
from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF, TRANSACTION_TOPICS
from gantrymq.store.message_store import MessageStore


class StoredPlaces:
    """What the store and the table of open transactions say about the messages that a request names by their place."""

    def __init__(self, store: MessageStore, coordinator: TransactionCoordinator, rights: MessageRights) -> None:
        self._store = store
        self._coordinator = coordinator
        self._rights = rights

    def topic_of_half(self, queue_offset: int, log_offset: int) -> str | None:
        half = self._coordinator.table.at(queue_offset, log_offset)
        if half is not None:
            return half.real_topic
        record = self._read(log_offset)
        return _real_topic(record) if record is not None and record.topic == HALF else None

    def topics_at(self, log_offset: int) -> tuple[str, ...]:
        record = self._read(log_offset)
        if record is None:
            return ()
        owners = () if record.topic in TRANSACTION_TOPICS else self._rights.owners(record)
        return owners or (record.topic,)

    def real_topic_at(self, log_offset: int) -> str | None:
        record = self._read(log_offset)
        return None if record is None else _real_topic(record)

    def _read(self, log_offset: int) -> StoredMessage | None:
        if log_offset < 0:
            return None
        try:
            return self._store.read(log_offset)
        except GantryError:  # no message begins there; the operation finds that, too
            return None


@dataclass(frozen=True, slots=True)
class Users:
    """What a door asks about users."""

    access: Access
    rights: MessageRights
    """What each of them may be given."""
    places: StoredPlaces
    """Which topics a request is about that names a message by its place."""

    @property
    def guard(self) -> Guard:
        """Says who somebody is, and whether a request may pass."""
        return self.access.guard


def users_of(
    access: Access, trace_topic: str, registries: Registries, store: MessageStore, coordinator: TransactionCoordinator
) -> Users:
    """From now on only those who may send to a topic are asked about its undecided messages. ``trace_topic``: see
    ``MessageRights``."""
    rights = MessageRights(access.guard, registries.topics, trace_topic)
    registries.producers.may_see = rights.may_be_asked
    return Users(access, rights, StoredPlaces(store, coordinator, rights))


def _real_topic(record: StoredMessage) -> str:
    return properties.find(record.properties_text, properties.REAL_TOPIC) or record.topic
