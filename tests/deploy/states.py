"""Brokers in the states that the alerts are about. Each state goes on as long as ``happen`` is called: an increase is
seen between two looks of Prometheus."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gantrymq import LocalTransactionState, Message
from gantrymq.aio import TransactionProducer
from gantrymq.demo.ports import free_port
from gantrymq.message.heartbeat import ConsumerData, ProducerData, SubscriptionData
from gantrymq.message.tags import tags_code
from gantrymq.protocol.bodies.heartbeat import HeartbeatData
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.consumer import SendBack, UpdateConsumerOffset
from gantrymq.protocol.headers.send import SendMessageAnswer
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.simulation.world.disk import SimDisk
from tests.support.brokers import TIMEOUT_MS, Cluster, cluster, new_client

MIB = 1 << 20
HALF = "TRAN_MSG\x01true\x02PGROUP\x01{}\x02UNIQ_KEY\x01{}\x02"
COMMIT, ROLLBACK = 8, 12
OPEN_FOR_LONG = {"transaction_time_out": 3_600_000}
PASSWORD = "admin-secret"  # nosec B105 # of a broker of this test
USERS = {
    "authentication_enabled": True,
    "init_authentication_user": f'{{"username":"admin","password":"{PASSWORD}"}}',
    "inner_client_authentication_credentials": f'{{"accessKey":"admin","secretKey":"{PASSWORD}"}}',
}
LIMITS = {
    "max_connections_per_host": 12, "first_request_timeout": 200, "max_bytes_in_flight_per_host": 200_000,
    "max_requests_per_second": 5,
}  # fmt: skip


class Undecided:
    """Its outcome is unknown, however often it is asked."""

    async def execute_local_transaction(self, message: Any, argument: Any) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    async def check_local_transaction(self, message: Any) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


async def half(c: Cluster, group: str, key: str) -> SendMessageAnswer:
    return await c.sent("Orders", b"paid", HALF.format(group, key))


async def end(c: Cluster, group: str, key: str, sent: SendMessageAnswer, resolution: int) -> int:
    header = EndTransaction(
        producer_group=group, tran_state_table_offset=sent.queue_offset,
        commit_log_offset=parse_offset_message_id(sent.msg_id)[1], commit_or_rollback=resolution,
        msg_id=key, transaction_id=key,
    )  # fmt: skip
    return (await c.ask(RequestCode.END_TRANSACTION, header)).code


@dataclass
class States:
    """Running brokers, and what goes on in them."""

    root: Path
    stack: contextlib.AsyncExitStack
    ports: dict[str, int] = field(default_factory=dict)
    """Of HTTP, by the broker's name."""
    name_servers: str = ""
    guarded_name_servers: str = ""
    steps: int = 0

    async def start(self) -> None:
        """All brokers and their lasting states."""
        await self._transactions()
        await self._full_disks()
        await self._damaged()
        self.limited = await self._broker("limited", SimDisk(), with_name_server=True, **LIMITS)
        self.guarded = await self._broker("guarded", SimDisk(), with_name_server=True, **USERS)
        assert self.guarded.name_server is not None
        self.guarded_name_servers = self.guarded.name_server.address

    async def happen(self) -> None:
        """What the counters of the alerts count."""
        self.steps += 1
        await self._in_transactions()
        assert (await self.full.send("Orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        disk, sent = self.failing_disk, self.failing_halves.pop()
        disk.free_bytes = 0
        await end(self.failing, "PG", f"f{len(self.failing_halves)}", sent, COMMIT)
        disk.free_bytes = None
        self._spend()
        await self._strangers()

    async def _broker(self, name: str, disk: SimDisk | None = None, **settings: Any) -> Cluster:
        self.ports[name] = free_port()
        if self.name_servers and not settings.get("with_name_server"):
            settings["namesrv_addr"] = self.name_servers
        root = self.root / name if disk is None else "/store"
        return await self.stack.enter_async_context(
            cluster(root, disk=disk, broker_name=name, http_port=self.ports[name], **settings)
        )

    # ---- transactions and consumers

    async def _transactions(self) -> None:
        checks = {"transaction_time_out": 1000, "transaction_check_interval": 1000, "transaction_check_max": 2}
        self.busy = await self._broker("busy", SimDisk(), with_name_server=True, **checks)
        assert self.busy.name_server is not None
        self.name_servers = self.busy.name_server.address
        await self.busy.create_topic("Orders", queues=1)
        await half(self.busy, "nobody", "lonely")
        self.undecided = TransactionProducer("undecided", name_servers=self.name_servers, listener=Undecided())
        await self.undecided.start()
        for _ in range(2):
            await self.undecided.send_in_transaction(Message("Orders", b"paid"))
        await self._silent_producer()
        for tag in ("new", "old"):
            await self._says(f"selecting-{tag}", consumer_data_set=[
                ConsumerData(group_name="divided", subscription_data_set=[
                    SubscriptionData(topic="Orders", sub_string=tag, tags_set=[tag], code_set=[tags_code(tag)])
                ])
            ])  # fmt: skip
        self.conflict = await half(self.busy, "PG", "conflict")
        assert await end(self.busy, "PG", "conflict", self.conflict, COMMIT) == ResponseCode.SUCCESS
        header = UpdateConsumerOffset(consumer_group="slow", topic="Orders", queue_id=0, commit_offset=0)
        await self.busy.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)
        sent = await self.busy.sent("Orders", b"given up")
        place = parse_offset_message_id(sent.msg_id)[1]
        await self.busy.ask(
            RequestCode.CONSUMER_SEND_MSG_BACK, SendBack(group="newsletter", offset=place, delay_level=-1)
        )

    async def _silent_producer(self) -> None:
        """It is online, and never answers a check."""
        await self._says("silent", producer_data_set=[ProducerData(group_name="silent")])
        for number in range(10):
            await half(self.busy, "silent", f"s{number}")

    async def _says(self, client_id: str, **groups: Any) -> None:
        """A client with a connection of its own sends one heartbeat."""
        client = new_client(lambda _channel, _command: None)
        self.stack.push_async_callback(client.close)
        data = HeartbeatData(client_id=client_id, **groups)
        answer = await client.call(
            self.busy.broker.address, RequestCode.HEART_BEAT, None, data.encode(), timeout_ms=TIMEOUT_MS
        )
        assert answer.code == ResponseCode.SUCCESS

    async def _in_transactions(self) -> None:
        await end(self.busy, "PG", "conflict", self.conflict, ROLLBACK)
        for _ in range(10):
            await self.busy.sent("Orders", b"more and more")

    # ---- disks

    async def _full_disks(self) -> None:
        full = SimDisk()
        full.total_bytes, full.used_bytes = 64 * MIB, 61 * MIB
        self.full = await self._broker("full", full, disk_space_warning_level_ratio=90)
        self.spent_disk = SimDisk()
        self.spent = await self._broker("spent", self.spent_disk)
        self.failing_disk = SimDisk()
        self.failing = await self._broker("failing", self.failing_disk, disk_space_reserve=0, **OPEN_FOR_LONG)
        self.failing_halves = [await half(self.failing, "PG", f"f{number}") for number in range(200)]
        hanging = SimDisk()
        behind = await self._broker("hanging", hanging, flush_disk_type="ASYNC_FLUSH")
        hanging.hold_syncs = True
        self.stack.callback(hanging.close)
        self.stack.callback(setattr, hanging, "hold_syncs", False)
        await behind.sent("Orders", bytes(100_000))

    def _spend(self) -> None:
        """Another program takes the reserve as soon as it is given back."""
        room, disk = self.spent.broker.store.room, self.spent_disk
        disk.free_bytes = 0
        while room.reserve.release(1):
            disk.free_bytes = 0
        room.look()

    async def _damaged(self) -> None:
        disk = SimDisk()
        async with cluster("/store", disk=disk, broker_name="damaged", **OPEN_FOR_LONG) as before:
            sent = await half(before, "PG", "unreadable")
            await before.sent("Orders", b"behind it")
        disk.remove("/store/gantry/open-halves")
        for data in disk.bytes_of(f"/store/commitlog/{0:020d}"):
            at = data.index(b"paid", parse_offset_message_id(sent.msg_id)[1])
            data[at] ^= 0xFF
        await self._broker("damaged", disk, **OPEN_FOR_LONG)

    # ---- clients that are refused

    async def _strangers(self) -> None:
        port, http = int(self.limited.broker.address.rsplit(":", 1)[1]), self.ports["limited"]
        request = b"GET /transactions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        await asyncio.gather(*(_say(http, request) for _ in range(12)))  # more than in a second
        for _ in range(12):
            await _say(self.ports["guarded"], request)  # nobody says who asks
        await _say(port, (1 << 20).to_bytes(4, "big") + bytes(300_000))  # a frame that does not end
        open_ones = []
        for _ in range(20):  # more than one address may have, and none of them asks anything
            with contextlib.suppress(OSError):
                open_ones.append((await asyncio.open_connection("127.0.0.1", port))[1])
        await asyncio.sleep(1.5)
        for writer in open_ones:
            writer.close()


async def _say(port: int, data: bytes) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        await asyncio.wait_for(reader.read(1), 2)
        writer.close()


@contextlib.asynccontextmanager
async def states(root: Path) -> AsyncIterator[States]:
    """All states, until the block ends."""
    async with contextlib.AsyncExitStack() as stack:
        found = States(root, stack)
        await found.start()
        yield found
