"""The clients of gRPC, which use both doors: a transaction may end at another one than the one that took its half."""

from __future__ import annotations

import asyncio
import contextlib
import random

import grpc.aio

from gantrymq.grpc import definition_pb2 as v2
from gantrymq.message.receipt_handle import parse
from tests.kill.doors.ledger import COMMIT, ROLLBACK, TOPIC, UNKNOWN, Ledger, Sent
from tests.support.grpc_client import GrpcClient, message, producer

OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 300),
]  # fmt: skip
GROUP = "by-grpc"
SECONDS = 2.0
INVISIBLE_SECONDS = 3.0
RESOLUTIONS = {
    COMMIT: v2.TransactionResolution.COMMIT, ROLLBACK: v2.TransactionResolution.ROLLBACK,
    UNKNOWN: v2.TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED,
}  # fmt: skip
LOST = (grpc.aio.AioRpcError, TimeoutError)


class GrpcClients:
    """One channel to each door."""

    def __init__(self, doors: dict[str, str], ledger: Ledger, chance: random.Random) -> None:
        self._ledger = ledger
        self._chance = chance
        self._channels = {name: grpc.aio.insecure_channel(address, options=OPTIONS) for name, address in doors.items()}
        self._clients = {name: GrpcClient(channel, f"by-grpc-{name}") for name, channel in self._channels.items()}

    def start(self) -> list[asyncio.Task[None]]:
        """The streams on which checks are answered, one to each door."""
        self._ledger.group(GROUP)
        return [asyncio.create_task(self._answer_checks(client)) for client in self._clients.values()]

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()

    def _any(self) -> GrpcClient:
        return self._chance.choice(list(self._clients.values()))

    # Producers.

    async def plain(self) -> None:
        sent = self._ledger.new(transaction=False)
        confirmed = await self._send(self._any(), sent, v2.MessageType.NORMAL) is not None
        self._ledger.plain(sent, confirmed)

    async def transaction(self) -> None:
        sent = self._ledger.new(transaction=True)
        ids = await self._send(self._any(), sent, v2.MessageType.TRANSACTION)
        self._ledger.half(sent, confirmed=ids is not None)
        if ids is None:
            self._ledger.end_row(sent, "rolled back")
            return
        self._ledger.end_row(sent, self._chance.choice(["committed", "committed", "rolled back"]))
        if self._chance.random() < 0.3:
            return  # a check decides
        if self._chance.random() < 0.2:
            await asyncio.sleep(self._chance.uniform(0, 2))  # late
        await self._end(self._any(), sent, ids)

    async def _send(self, client: GrpcClient, sent: Sent, kind: v2.MessageType) -> tuple[str, str] | None:
        """The ids; None: the message may be lost."""
        one = message(TOPIC, sent.name.encode() + bytes(300), message_type=kind, keys=[sent.name])
        try:
            async with asyncio.timeout(SECONDS):
                answer = await client.send(one)
        except LOST:
            return None
        if answer.status.code != v2.Code.OK:
            return None
        return answer.entries[0].message_id, answer.entries[0].transaction_id

    async def _end(self, client: GrpcClient, sent: Sent, ids: tuple[str, str], source: int = 1) -> None:
        decision = COMMIT if sent.row == "committed" else ROLLBACK
        self._ledger.asks_for(sent, decision)
        with contextlib.suppress(*LOST):
            async with asyncio.timeout(SECONDS):
                status = await client.end(TOPIC, *ids, RESOLUTIONS[decision], source=source)
            if status.code == v2.Code.OK:
                self._ledger.ended(sent, decision)

    async def _answer_checks(self, client: GrpcClient) -> None:
        """For ever; the stream is opened again when it breaks."""
        while True:
            with contextlib.suppress(*LOST):
                async with client.telemetry(producer(TOPIC)) as answer:
                    if isinstance(answer, bool) or answer is grpc.aio.EOF:
                        raise TimeoutError
                    await self._until_broken(client)
            await asyncio.sleep(0.2)

    async def _until_broken(self, client: GrpcClient) -> None:
        while True:
            try:
                command = await asyncio.wait_for(client.commands.get(), 1)
            except TimeoutError:
                # A stream that has ended is noticed by a heartbeat of settings in real clients; here it is renewed.
                return
            asked = command.recover_orphaned_transaction_command
            if not asked.transaction_id:
                continue
            system = asked.message.system_properties
            sent = self._ledger.sent[system.keys[0]]
            decision = self._ledger.answer(sent.name)
            if decision != UNKNOWN:
                await self._end(client, sent, (system.message_id, asked.transaction_id), source=2)

    # Consumers.

    async def consume(self) -> None:
        """Some messages of one door, acknowledged at any."""
        try:
            async with asyncio.timeout(SECONDS + 2):
                _, got = await self._any().receive(TOPIC, GROUP, seconds=1, invisible=INVISIBLE_SECONDS, count=16)
        except LOST:
            await asyncio.sleep(0.1)
            return
        for one in got:
            handle = parse(one.system_properties.receipt_handle)
            self._ledger.done(
                one.system_properties.keys[0], GROUP, handle.broker_name, handle.queue_id, handle.offset
            )  # fmt: skip
        if got:
            with contextlib.suppress(*LOST):
                async with asyncio.timeout(SECONDS):
                    await self._any().ack(TOPIC, *got, group=GROUP)
