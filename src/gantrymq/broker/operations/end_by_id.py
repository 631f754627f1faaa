"""Ending a transaction that is named by ids, and not by the two offsets of its half message.

A client of RocketMQ 5 (gRPC) has only ids: of the message, which is its UNIQ_KEY or the offset message id that tells
where the half message is stored, and of the transaction, which is the UNIQ_KEY. Nothing is remembered for it in a door,
so it may end a transaction through another door than it sent the half message by, and after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from gantrymq.broker.client import Client, Operator
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.transactions.end import Done, EndRequest
from gantrymq.errors import RemoteProtocolError
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import LENGTHS, log_offset_of, offset_message_id
from gantrymq.transactions.ports import HalfStore
from gantrymq.transactions.records.half import read_half
from gantrymq.transactions.table.open_halves import TransactionTable

FOUND_MAX: Final = 64
"""Half messages of one id that are looked at; a client that sends an object again reuses its id."""


@dataclass(frozen=True, slots=True)
class TransactionIds:
    """How a client names a transaction."""

    message_id: str
    """The UNIQ_KEY, or the offset message id of the half message."""
    transaction_id: str | None = None
    """The UNIQ_KEY. None: the message id says enough."""
    group: str | None = None
    """The producer group. None: that of the half message; the client must be of it, or have sent the half message."""


@dataclass(frozen=True, slots=True)
class NamedHalf:
    """The half message that ids name, in whatever state it is."""

    group: str
    unique_key: str
    topic: str
    """Under which consumers would get it."""
    queue_offset: int
    """In the half queue."""
    log_offset: int


class Transactions(Protocol):
    """The transactions of the broker; its table is another one after a rebuild."""

    @property
    def table(self) -> TransactionTable: ...

    @property
    def ends(self) -> Ends: ...


class Ends(Protocol):
    """Ends transactions by their offsets."""

    def end(self, client: Client, request: EndRequest, done: Done | None) -> None: ...


class EndsById:
    """Finds the half message, and hands the request to the rules of an end with offsets."""

    def __init__(self, store: HalfStore, transactions: Transactions) -> None:
        self._store = store
        self._transactions = transactions

    def end(
        self, client: Client, ids: TransactionIds, resolution: Resolution, done: Done | None, *,
        answers_check: bool = False, operator: Operator | None = None,
    ) -> None:  # fmt: skip
        """As ``EndOperation.end``. Raises Refused as that does, and as ``find`` does."""
        half = self.find(ids)
        # The rules compare ids with the UNIQ_KEY: the place was compared here, and is no proof of who sent the half.
        named = half.unique_key if half.unique_key in (ids.message_id, ids.transaction_id) else ""
        request = EndRequest(
            ids.group or half.group, half.queue_offset, half.log_offset, named, None, resolution, answers_check,
            operator,
        )  # fmt: skip
        self._transactions.ends.end(client, request, done)

    def find(self, ids: TransactionIds) -> NamedHalf:
        """The half message that ``ids`` name: by its place, else the open one, else the newest that the index knows.

        Doors ask this before an end, for the topic whose rights it needs. Raises Refused: MESSAGE_UNKNOWN when there is
        none, PARAMETER_INVALID when half messages of several producer groups have the id.
        """
        found = self._at_place(ids)
        if found:
            return found[0]
        for key in dict.fromkeys((ids.transaction_id, ids.message_id)):
            found = (self._open(key, ids.group) or self._indexed(key, ids.group)) if key else []
            if len(found) == 1:
                return found[0]
            if len({half.group for half in found}) > 1:
                raise Refused(
                    Refusal.PARAMETER_INVALID,
                    f"half messages of several producer groups have the id {key!r}; name the group",
                )
            if found:
                return max(found, key=lambda half: half.queue_offset)
        raise Refused(
            Refusal.MESSAGE_UNKNOWN,
            f"this broker has no half message {ids.message_id!r} of the transaction {ids.transaction_id!r}: it is "
            "older than the log, another broker has it, the ids are others, or it has ended and there is no index "
            "(messageIndexEnable)",
        )

    def _at_place(self, ids: TransactionIds) -> list[NamedHalf]:
        if len(ids.message_id) not in LENGTHS:
            return []
        try:
            record = self._store.read(log_offset_of(ids.message_id))
        except RemoteProtocolError:  # it is not such an id
            return []
        if record is None or record.topic != HALF:
            return []
        if offset_message_id(pack_host(record.store_host), record.log_offset) != ids.message_id.upper():
            return []
        half = _named(record)
        return [half] if ids.transaction_id in (None, "", half.unique_key) else []

    def _open(self, key: str, group: str | None) -> list[NamedHalf]:
        return [
            NamedHalf(half.group, key, half.real_topic, half.queue_offset, half.log_offset)
            for half in self._transactions.table.with_key(key)
            if group in (None, half.group)
        ]

    def _indexed(self, key: str, group: str | None) -> list[NamedHalf]:
        halves = [_named(record) for record in self._store.query(HALF, key, FOUND_MAX) if record.topic == HALF]
        return [half for half in halves if half.unique_key == key and group in (None, half.group)]


def _named(record: StoredMessage) -> NamedHalf:
    fields = read_half(record)
    return NamedHalf(fields.group, fields.unique_key, fields.real_topic, record.queue_offset, record.log_offset)
