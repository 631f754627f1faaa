"""Transactions from outside: halves, op messages and parked copies are read as the tools of RocketMQ read them, and a
decision is sent as a producer of the group sends it. This works with Apache's brokers, too.

``transaction_search`` finds them at one broker; this module asks all brokers, and ends or resumes transactions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gantrymq.admin.asking import Asking
from gantrymq.admin.brokers import Brokers
from gantrymq.admin.consumers import Consumers
from gantrymq.admin.messages import Messages
from gantrymq.admin.queue_records import Read
from gantrymq.admin.transaction_pages import TransactionPages, Undecided
from gantrymq.admin.transaction_search import EVERYTHING, TransactionSearch, Wanted
from gantrymq.errors import ConfigError, GantryError
from gantrymq.message.heartbeat import ProducerData
from gantrymq.message.system_topics import HALF
from gantrymq.message.transaction import OPERATOR_CLIENT, OPERATOR_REMARK, Resolution
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import encode_request
from gantrymq.protocol.headers.consumer import UnregisterClient
from gantrymq.protocol.headers.tools import ResumeCheck
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.protocol.message_ids import log_offset_of
from gantrymq.transactions.history.diagnosis import Surroundings, Transaction
from gantrymq.transactions.history.evidence import HalfRecord
from gantrymq.transactions.rules.states import State

OPS_STORED_WITHIN_S: Final = 10.0
OP_LOOK_AGAIN_S: Final = 0.5
ENDS_AT_ONCE: Final = 32
"""Requests to end listed transactions that are under way at the same time; the broker stores them together."""


@dataclass(frozen=True, slots=True)
class Place:
    """A transaction and the broker that keeps it."""

    broker: str
    address: str
    transaction: Transaction
    java: bool = False
    """An Apache broker keeps it."""


class Transactions:
    """Finds transactions, and ends them in the name of a person."""

    def __init__(self, asking: Asking, brokers: Brokers, consumers: Consumers, messages: Messages) -> None:
        self._asking = asking
        self._search = TransactionSearch(asking, brokers, consumers, messages)
        self.pages = TransactionPages(asking, self._search)
        self._joined: Counter[tuple[str, str]] = Counter()
        """Decisions under way, by address and group: all of them are one member, which leaves with the last one."""

    async def undecided(
        self, broker: str | None = None, read: Read | None = None, wanted: Wanted = EVERYTHING
    ) -> list[Place]:
        """The open and the parked transactions of the masters (or of one), oldest first. ``wanted``: which ones,
        and how many of each broker and state."""
        found: list[Place] = []
        for name, address in (await self._asking.chosen(broker)).items():
            transactions = await self._search.undecided(name, address, read, wanted=wanted)
            found += [
                Place(name, address, transaction, self._asking.endpoint.speaks_java(address))
                for transaction in transactions
            ]
        return sorted(found, key=lambda place: place.transaction.half.born_ms)

    async def find(self, transaction_id: str, broker: str | None = None) -> list[Place]:
        """Every transaction with this id (UNIQ_KEY, or the offset message id of its half), whatever became of it.

        A client that sends a message object again reuses its id, so there may be several.
        """
        found: list[Place] = []
        for name, address in (await self._asking.chosen(broker)).items():
            transactions = await self._search.find(name, address, transaction_id)
            found += [
                Place(name, address, transaction, self._asking.endpoint.speaks_java(address))
                for transaction in transactions
            ]
        return found

    async def end(self, place: Place, resolution: Resolution, why: str) -> None:
        """Commit or roll back an open transaction. Raises RequestRejected when the broker refuses, TimedOut when it did
        not answer in time: then look again before trying again.
        """
        transaction = place.transaction
        if transaction.state is not State.OPEN:
            raise ConfigError(
                f"transaction {transaction.transaction_id} is {transaction.state.text}; only an open one can be ended"
            )
        # Our broker hears members of the group only; an Apache broker hears everybody, and would ask us.
        if place.java:
            await self._end(place, transaction.half, resolution, why)
            await self._settle_copies(place, why)
            return
        try:
            await self._join(place.address, [transaction.group])
            await self._end(place, transaction.half, resolution, why)
        finally:
            self._leave(place.address, [transaction.group])

    async def end_listed(
        self, rows: Sequence[Undecided], resolution: Resolution, why: str
    ) -> list[GantryError | None]:  # fmt: skip
        """End open transactions of one of our brokers as a page listed them; what became of each, in their order.

        None: it is done. TimedOut and Unreachable: it may be done. A RequestRejected: the broker refused, e.g. because
        the other outcome was decided meanwhile.
        """
        address, turns = rows[0].address, asyncio.Semaphore(ENDS_AT_ONCE)

        async def one(row: Undecided) -> GantryError | None:
            header = EndTransaction(
                producer_group=row.group, tran_state_table_offset=row.half_queue_offset,
                commit_log_offset=log_offset_of(row.half_offset_message_id), commit_or_rollback=int(resolution),
                from_transaction_check=True, msg_id=row.id, transaction_id=row.id, topic=row.topic, bname=row.broker,
            )  # fmt: skip
            async with turns:
                try:
                    await self._asking.ask(
                        address, RequestCode.END_TRANSACTION, header, timeout_ms=10_000, remark=OPERATOR_REMARK + why,
                        what=f"{resolution.name} of transaction {row.id}",
                    )  # fmt: skip
                except GantryError as error:
                    return error
            return None

        groups = sorted({row.group for row in rows})
        try:
            await self._join(address, groups)
            return await asyncio.gather(*(one(row) for row in rows))
        finally:
            self._leave(address, groups)

    async def _end(self, place: Place, half: HalfRecord, resolution: Resolution, why: str) -> None:
        header = EndTransaction(
            producer_group=half.group,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.log_offset,
            commit_or_rollback=int(resolution),
            from_transaction_check=True,
            msg_id=half.unique_key,
            transaction_id=half.unique_key,
            topic=half.real_topic,
            bname=place.broker,
        )
        await self._asking.ask(
            place.address, RequestCode.END_TRANSACTION, header, timeout_ms=10_000, remark=OPERATOR_REMARK + why,
            what=f"{resolution.name} of transaction {half.unique_key}",
        )  # fmt: skip

    async def _settle_copies(self, place: Place, why: str) -> None:
        """An Apache broker may have put the half back while it was being ended, would check the copy, and in the end
        commit it once more. 5.x stores op messages up to three seconds late and makes copies until then. So each copy
        is settled by a rollback, which delivers nothing, until the ops of all are stored and there are no more.
        """
        clock, ended = self._asking.endpoint.clock, place.transaction.half
        deadline = clock.monotonic() + OPS_STORED_WITHIN_S
        done = {ended.queue_offset}
        while clock.monotonic() < deadline:
            copies = [
                half
                for half in await self._search.by_key(place.address, HALF, ended.unique_key)
                if half.identity == ended.identity and half.put_back and half.log_offset > ended.log_offset
            ]
            ops = await self._search.ops_of(place.address, place.broker, [ended, *copies], [])
            left = [copy for copy in copies if copy.queue_offset not in ops and copy.queue_offset not in done]
            for copy in left:
                await self._end(place, copy, Resolution.ROLLBACK, why)
                done.add(copy.queue_offset)
            if not left and done <= ops.keys():
                return
            await clock.sleep(OP_LOOK_AGAIN_S)

    async def resume(self, place: Place, why: str) -> None:
        """Have a parked transaction checked again, as if it were new."""
        transaction = place.transaction
        if transaction.state is not State.PARKED:
            raise ConfigError(
                f"transaction {transaction.transaction_id} is {transaction.state.text}; "
                "only a parked one can be resumed"
            )
        await self._asking.ask(
            place.address, RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheck(msg_id=transaction.half.message_id),
            timeout_ms=10_000, remark=OPERATOR_REMARK + why,
            what=f"resumption of transaction {transaction.transaction_id}",
        )  # fmt: skip

    async def surroundings(self, address: str, groups: Iterable[str]) -> Surroundings:
        """What the broker tells of its settings and of the producers of these groups, as far as it does."""
        return await self._search.surroundings(address, groups)

    def lists_them(self, address: str) -> bool:
        """Whether the broker there tells of its undecided transactions by itself; Apache's do not."""
        return not self._asking.endpoint.speaks_java(address)

    async def _join(self, address: str, groups: Sequence[str]) -> None:
        """Be a producer of groups for a moment: one that is not asked, because it knows nothing. ``_leave`` follows,
        also when this fails."""
        self._joined.update((address, group) for group in groups)
        await self._asking.endpoint.channel(address, self._asking.endpoint.config.call_timeout_ms)
        beat = HeartbeatData(
            client_id=self._asking.endpoint.client_id + OPERATOR_CLIENT,
            producer_data_set=[ProducerData(group_name=group) for group in groups],
        )
        await self._asking.ask(address, RequestCode.HEART_BEAT, None, beat.encode(), what="heartbeat")

    def _leave(self, address: str, groups: Sequence[str]) -> None:
        """One-way, and without waiting for anything: it is done also when we are cancelled."""
        self._joined.subtract((address, group) for group in groups)
        left = [group for group in groups if not self._joined[address, group]]
        for group in left:
            del self._joined[address, group]
        channel = self._asking.endpoint.ready(address)
        if channel is None:
            return  # the broker forgets with the connection
        client_id = self._asking.endpoint.client_id + OPERATOR_CLIENT
        for group in left:
            header = UnregisterClient(client_id=client_id, producer_group=group)
            channel.send(encode_request(RequestCode.UNREGISTER_CLIENT, channel.next_opaque(), header, one_way=True))
