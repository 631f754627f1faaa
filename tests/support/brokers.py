"""A name server and a broker in this process, over real sockets, and the few requests that tests send them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gantrymq.broker.broker import Broker
from gantrymq.broker.config import BrokerConfig
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header, SerializeType
from gantrymq.protocol.headers.pull import PullMessage
from gantrymq.protocol.headers.send import SendMessage, SendMessageAnswer
from gantrymq.protocol.headers.topics import CreateTopic
from gantrymq.remoting.channel import PushHandler
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import Clock, SystemClock
from gantrymq.runtime.disk import Disk, OsDisk
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng
from gantrymq.store.log.conditions import Condition

TIMEOUT_MS = 10_000
SUSPEND, INLINE_SUBSCRIPTION, COMMIT = 2, 4, 1


@dataclass
class Cluster:
    """A running broker and, when there is one, its name server."""

    broker: Broker
    client: RemotingClient
    name_server: NameServer | None = None

    async def ask(
        self, code: int, header: Header | None = None, body: bytes = b"", *, extra: Mapping[str, str] | None = None
    ) -> Command:
        return await self.client.call(
            self.broker.address, code, header, body, timeout_ms=TIMEOUT_MS, extra=extra
        )  # fmt: skip

    async def send(self, topic: str, body: bytes = b"hello", properties: str = "", **fields: object) -> Command:
        code = int(str(fields.pop("code", int(RequestCode.SEND_MESSAGE_V2))))
        return await self.ask(code, send_header(topic, properties, **fields), body)

    async def sent(
        self, topic: str, body: bytes = b"hello", properties: str = "", **fields: object
    ) -> SendMessageAnswer:
        answer = await self.send(topic, body, properties, **fields)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer.header(SendMessageAnswer)

    async def pull(self, topic: str, queue_id: int = 0, offset: int = 0, **fields: object) -> Command:
        return await self.ask(RequestCode.PULL_MESSAGE, pull_header(topic, queue_id, offset, **fields))

    async def create_topic(self, topic: str, queues: int = 4, attributes: str | None = None, perm: int = 6) -> Command:
        header = CreateTopic(
            topic=topic, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=perm,
            topic_filter_type="SINGLE_TAG", order=False, attributes=attributes,
        )  # fmt: skip
        return await self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)


def send_header(topic: str, properties: str = "", **fields: object) -> SendMessage:
    values: dict[str, object] = {
        "producer_group": "PG", "topic": topic, "default_topic": "TBW102", "default_topic_queue_nums": 4,
        "queue_id": 0, "sys_flag": 0, "born_timestamp": 1_700_000_000_000, "flag": 0, "properties": properties,
        "reconsume_times": 0, "unit_mode": False, "batch": False,
    }  # fmt: skip
    return SendMessage(**{**values, **fields})  # type: ignore[arg-type]


def pull_header(topic: str, queue_id: int = 0, offset: int = 0, **fields: object) -> PullMessage:
    values: dict[str, object] = {
        "consumer_group": "CG", "topic": topic, "queue_id": queue_id, "queue_offset": offset, "max_msg_nums": 32,
        "sys_flag": INLINE_SUBSCRIPTION, "commit_offset": 0, "suspend_timeout_millis": 0, "sub_version": 0,
        "subscription": "*", "expression_type": "TAG",
    }  # fmt: skip
    return PullMessage(**{**values, **fields})  # type: ignore[arg-type]


def new_client(requests: PushHandler | None = None, serialize: SerializeType = SerializeType.JSON) -> RemotingClient:
    return RemotingClient(TcpNetwork(), SystemClock(), SystemRng(), requests=requests, serialize=serialize)


def broker_config(root: Path | str, **settings: object) -> BrokerConfig:
    """Settings with small files and a free port on the loopback address."""
    values: dict[str, object] = {
        "store_path_root_dir": str(root), "listen_port": 0, "bind_address": "127.0.0.1",
        "mapped_file_size_commit_log": 16 << 20, "mapped_file_size_consume_queue": 20 * 4096,
        "max_index_num": 4000, "max_hash_slot_num": 1000, "disk_space_warning_level_ratio": 100,
        "disk_space_reserve": 1 << 20,
    }  # fmt: skip
    return BrokerConfig.of(**{**values, **settings})


@contextlib.asynccontextmanager
async def cluster(
    root: Path | str,
    *,
    with_name_server: bool = False,
    disk: Disk | None = None,
    clock: Clock | None = None,
    serialize: SerializeType = SerializeType.JSON,
    conditions: Sequence[Condition] = (),
    **settings: object,
) -> AsyncIterator[Cluster]:
    """Start a broker and a name server, and stop them when the block ends."""
    async with contextlib.AsyncExitStack() as stack:
        name_server = None
        if with_name_server:
            name_server = NameServer(
                NameServerConfig(listen_host="127.0.0.1", listen_port=0), TcpNetwork(), SystemClock(), OsDisk()
            )
            settings["namesrv_addr"] = await name_server.start()
            stack.push_async_callback(name_server.close)
        broker = Broker(
            broker_config(root, **settings),
            TcpNetwork(),
            clock or SystemClock(),
            SystemRng(),
            disk or OsDisk(),
            conditions=conditions,
        )
        await broker.start()
        stack.push_async_callback(broker.close)
        client = new_client(serialize=serialize)
        stack.push_async_callback(client.close)
        yield Cluster(broker, client, name_server)


def on_broker(work: Callable[[Cluster], Awaitable[None]], root: Path | str, **settings: object) -> None:
    """Run ``work`` against a fresh broker on ``root``."""

    async def bounded() -> None:
        async with asyncio.timeout(30), cluster(root, **settings) as running:  # type: ignore[arg-type]
            await work(running)

    asyncio.run(bounded())


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Poll until ``holds()`` is true. The time-out of ``story`` is the deadline."""
    while True:
        answer = holds()
        if answer if isinstance(answer, bool) else await answer:
            return
        await asyncio.sleep(0.01)
