"""Finding stored messages by key and by place. Source: QueryMessageProcessor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gantrymq.broker.client import Reader
from gantrymq.broker.message_rights import MessageRights
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.message.message import StoredMessage
from gantrymq.message.sizes import QUERY_ANSWER_BYTES
from gantrymq.protocol.stored_message import encode_stored
from gantrymq.store.message_store import MessageStore

UNIQUE_KEY_MAX: Final = 32
"""Messages found by a unique key, as in Apache's broker (defaultQueryMaxNum)."""
KEY_MAX: Final = 64
"""Messages found by a key at most."""


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """Messages of a topic by their key, stored between two times (ms since 1970, both included)."""

    topic: str
    key: str
    count: int
    begin: int
    end: int
    unique: bool = False
    """Asked for a unique key; ``count`` is of no account then."""


@dataclass(frozen=True, slots=True)
class FoundByKey:
    """The newest come first."""

    records: tuple[bytes, ...]
    """As they are stored."""
    last_store_timestamp: int
    """ms since 1970; 0 when nothing was found."""
    last_log_offset: int


class Queries:
    """Questions for single messages."""

    def __init__(
        self, store: MessageStore, rights: MessageRights | None, answer_max_bytes: int = QUERY_ANSWER_BYTES
    ) -> None:
        """``rights``: judges what is found in topics of the system; None: the broker has no users."""
        self._store = store
        self._answer_max_bytes = answer_max_bytes
        self._rights = rights

    def by_key(self, client: Reader, query: KeyQuery) -> FoundByKey:
        """As in Apache's broker a plain query also finds unique keys, and the other way round. Messages that the client
        may not be given are left out; raises Refused when no other one was found.
        """
        count = UNIQUE_KEY_MAX if query.unique else max(1, min(query.count, KEY_MAX))
        found = self._seen(client, self._store.query(query.topic, query.key, count, query.begin, query.end))
        records: list[bytes] = []
        size = 0
        for message in found:
            record = encode_stored(message)
            size += len(record)
            if records and size > self._answer_max_bytes:
                break
            records.append(record)
        return FoundByKey(
            tuple(records),
            max((message.store_timestamp for message in found), default=0),
            max((message.log_offset for message in found), default=0),
        )

    def _seen(self, client: Reader, found: list[StoredMessage]) -> list[StoredMessage]:
        rights = self._rights
        if rights is None or not found or rights.holds(found[0].topic) is None:
            return found
        lacks = [(message, rights.missing(client, message)) for message in found]
        seen = [message for message, missing in lacks if missing is None]
        if not seen:
            raise Refused(Refusal.NOT_PERMITTED, lacks[0][1] or "")
        return seen

    def by_log_offset(self, client: Reader, log_offset: int) -> bytes:
        """The record of a message. Raises Refused when none begins there, or the client may not be given it."""
        message = self._store.read(log_offset)
        if message is None:
            raise Refused(Refusal.FAILED, f"can not find message by the offset, {log_offset}")
        if self._rights is not None:
            self._rights.demand(client, message)
        return encode_stored(message)
