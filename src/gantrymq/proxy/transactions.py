"""Half messages behind a proxy: how a transaction is named, ended and checked.

The transaction id that a client gets says where its half message lies. So any proxy ends it, at any age, and keeps
nothing for that. An id that says nothing, of another door, is looked up in the index of the brokers.
Source: TransactionService, ClusterTransactionService.
"""

from __future__ import annotations

import logging
import re
from typing import Final, NamedTuple

from gantrymq.access.guard import Guard
from gantrymq.access.values import send_need
from gantrymq.broker.grpc.clients import GrpcClient, GrpcClients
from gantrymq.broker.grpc.statuses import Rejected
from gantrymq.broker.operations.end_by_id import TransactionIds
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.errors import RemoteProtocolError
from gantrymq.grpc.definition_pb2 import Code
from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.pull import QueryMessage, ViewMessage
from gantrymq.protocol.headers.transaction import CheckTransactionState, EndTransaction
from gantrymq.protocol.stored_message import decode_record, scan
from gantrymq.proxy.cluster import Cluster
from gantrymq.remoting.channel import ClientChannel
from gantrymq.runtime.addresses import host_of

log = logging.getLogger("gantrymq.proxy")

FOUND_MAX: Final = 64
"""Half messages of one id that are looked at."""
FOREVER_MS: Final = 2**63 - 1
_PLACE: Final = re.compile(r"([0-9]{1,19})\.([0-9]{1,19})\.(.{1,255})")


class HalfPlace(NamedTuple):
    """Where a half message lies."""

    log_offset: int
    queue_offset: int
    """In the half queue."""
    broker_name: str

    def __str__(self) -> str:
        return f"{self.log_offset}.{self.queue_offset}.{self.broker_name}"


class NamedHalf(NamedTuple):
    """A half message that is to be ended."""

    place: HalfPlace
    group: str
    """Its producer group."""
    unique_key: str
    topic: str
    """Where it goes with a commit."""


def place_in(transaction_id: str | None) -> HalfPlace | None:
    """None: the id was made by another door."""
    found = _PLACE.fullmatch(transaction_id or "")
    return None if found is None else HalfPlace(int(found[1]), int(found[2]), found[3])


class Transactions:
    """Ends half messages."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def topic_of(self, ids: TransactionIds, topic: str) -> str:
        """Where the half message goes with a commit, whatever the client says. Raises Refused, or Rejected when the ids
        name no half message."""
        place = place_in(ids.transaction_id)
        if place is None:
            return (await self._find(ids, topic)).topic
        unknown = f"there is no half message of the transaction {ids.transaction_id!r}"
        try:
            answer = await self._cluster.ask(
                place.broker_name, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(offset=place.log_offset, topic=HALF),
                what=f"half message of transaction {ids.transaction_id}",
            )  # fmt: skip
            record = decode_record(answer.body)
        except RemoteProtocolError as error:
            raise Rejected(Code.INVALID_TRANSACTION_ID, unknown) from error
        except Refused as refused:
            if refused.reason is Refusal.UNAVAILABLE:
                raise
            raise Rejected(Code.INVALID_TRANSACTION_ID, unknown) from refused
        if record.topic != HALF:
            raise Rejected(Code.INVALID_TRANSACTION_ID, unknown)
        return _named(record, place.broker_name).topic

    async def end(self, ids: TransactionIds, topic: str, resolution: Resolution, *, answers_check: bool) -> None:
        """Raises Refused as the broker does; Rejected when the ids name no half message."""
        place = place_in(ids.transaction_id)
        half = await self._find(ids, topic) if place is None else NamedHalf(place, topic, ids.message_id, topic)
        header = EndTransaction(
            producer_group=half.group, tran_state_table_offset=half.place.queue_offset,
            commit_log_offset=half.place.log_offset, commit_or_rollback=int(resolution),
            from_transaction_check=answers_check, msg_id=half.unique_key, transaction_id=half.unique_key, topic=topic,
            bname=half.place.broker_name,
        )  # fmt: skip
        what, name = f"end of transaction {ids.transaction_id}", half.place.broker_name
        if resolution is Resolution.UNKNOWN:  # Apache's brokers do not answer it
            await self._cluster.tell(name, RequestCode.END_TRANSACTION, header, what=what)
        else:
            await self._cluster.ask(name, RequestCode.END_TRANSACTION, header, what=what)

    async def _find(self, ids: TransactionIds, topic: str) -> NamedHalf:
        """The newest half message of an id that the brokers of the topic know."""
        route = await self._cluster.route(topic)
        found: list[NamedHalf] = []
        for key in dict.fromkeys((ids.transaction_id, ids.message_id)):
            for broker in route.broker_datas if key else ():
                found += await self._indexed(broker.broker_name, str(key))
            if found:
                return max(found, key=lambda half: half.place.queue_offset)
        raise Rejected(
            Code.INVALID_TRANSACTION_ID,
            f"no broker of topic {topic} knows a half message of the transaction {ids.transaction_id!r}",
        )

    async def _indexed(self, broker_name: str, key: str) -> list[NamedHalf]:
        answer = await self._cluster.ask(
            broker_name, RequestCode.QUERY_MESSAGE,
            QueryMessage(
                topic=HALF, key=key, max_num=FOUND_MAX, begin_timestamp=0, end_timestamp=FOREVER_MS, index_type="U",
                unique_key_query=True,
            ),
            what=f"look-up of transaction {key}", accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
        )  # fmt: skip
        if answer.code != ResponseCode.SUCCESS:
            return []
        halves = [_named(record, broker_name) for record in scan(answer.body) if record.topic == HALF]
        return [half for half in halves if half.unique_key == key]


def _named(record: StoredMessage, broker_name: str) -> NamedHalf:
    text = record.properties_text
    return NamedHalf(
        HalfPlace(record.log_offset, record.queue_offset, broker_name),
        properties.find(text, properties.PRODUCER_GROUP) or "", properties.find(text, properties.UNIQ_KEY) or "",
        properties.find(text, properties.REAL_TOPIC) or "",
    )  # fmt: skip


class Checks:
    """Passes the check-backs of brokers on to a producer of the group."""

    def __init__(self, clients: GrpcClients, cluster: Cluster, guard: Guard | None) -> None:
        """``cluster``: knows the names of brokers. ``guard``: judges who may be asked; None: everybody may."""
        self._clients = clients
        self._cluster = cluster
        self._guard = guard
        self._turn = 0

    def pushed(self, channel: ClientChannel, command: Command) -> None:
        """A broker asks how a transaction ended."""
        try:
            header, record = command.header(CheckTransactionState), decode_record(command.body)
        except RemoteProtocolError as error:
            log.warning("a check of the broker at %s cannot be read: %s", channel.address, error)
            return
        values = properties.decode(record.properties_text)
        group = values.get(properties.PRODUCER_GROUP, "")
        clients = [
            client
            for client in self._clients
            if group in client.topics and client.writable and self._may_see(client, record.topic)
        ]
        if not clients:
            log.info("no client of group %s is connected here to answer a check", group)
            return
        name = header.bname or self._cluster.name_at(channel.address)
        key = header.transaction_id or values.get(properties.UNIQ_KEY, "")
        place = HalfPlace(header.commit_log_offset, header.tran_state_table_offset, name or "")
        self._turn += 1
        clients[self._turn % len(clients)].recover(record, record.topic, str(place) if name else key)

    def _may_see(self, client: GrpcClient, topic: str) -> bool:
        """A check has the message: its client may send to that topic (``message_rights.may_be_asked``)."""
        return self._guard is None or self._guard.allows(client.user, send_need(topic), host_of(client.address))
