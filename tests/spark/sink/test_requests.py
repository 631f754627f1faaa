"""The clients of the sink, against a real broker."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from gantrymq.errors import ConfigError
from gantrymq.message import properties
from gantrymq.message.message import Message
from gantrymq.protocol.batch import encode_batch
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.halves import decode_places
from gantrymq.spark.sink.chunks import Chunk
from gantrymq.spark.sink.requests import TaskProducer
from tests.support.brokers import Cluster, on_broker
from tests.support.doors import remoting

COMMON = properties.encode({"TRAN_MSG": "true", "PGROUP": "PG"})
LONG_MS = 20_000


def chunk() -> Chunk:
    message = Message("Orders", "body")
    message.properties[properties.UNIQ_KEY] = "KEY"
    return Chunk("Orders", None, encode_batch([message]), np.zeros(1, dtype=np.uint32))


def producer(cluster: Cluster) -> TaskProducer:
    assert cluster.name_server is not None
    return TaskProducer("tasks", name_servers=cluster.name_server.address)


def test_a_broker_that_does_not_declare_that_ends_may_be_repeated_is_refused(tmp_path: Path) -> None:
    """As Apache's: it does not know the request. The error says what the user can choose."""

    async def work(cluster: Cluster) -> None:
        remoting(cluster.broker).handlers.pop(RequestCode.SEND_HALVES)
        async with producer(cluster) as tasks:
            with pytest.raises(ConfigError, match="deliveryGuarantee=at_least_once"):
                await tasks.store_halves(chunk(), COMMON, LONG_MS)
            await tasks.store(chunk(), LONG_MS)

    on_broker(work, tmp_path, with_name_server=True)


def test_a_request_is_repeated_until_the_broker_can_be_reached(tmp_path: Path) -> None:
    """The half message that was stored before is joined."""

    async def work(cluster: Cluster) -> None:
        async with producer(cluster) as tasks:
            _, first = await tasks.store_halves(chunk(), COMMON, LONG_MS)
            send = remoting(cluster.broker).handlers.pop(RequestCode.SEND_HALVES)
            channel = tasks._endpoint.ready(cluster.broker.address)
            assert channel is not None
            remoting(cluster.broker).handlers[RequestCode.SEND_HALVES] = lambda session, command: session.close()
            again = asyncio.ensure_future(tasks.store_halves(chunk(), COMMON, LONG_MS))
            while channel.alive:
                await asyncio.sleep(0.01)
            remoting(cluster.broker).handlers[RequestCode.SEND_HALVES] = send
            _, second = await again
            assert decode_places(second) == decode_places(first)

    on_broker(work, tmp_path, with_name_server=True)
