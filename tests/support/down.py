"""Clusters that are down, in the three ways in which one can be: for tests of what pages and commands say then."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from typing import Final
from zlib import crc32

from gantrymq.demo.ports import free_port
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.protocol.bodies.register import RegisterBrokerBody
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.files.topics import DataVersion, TopicConfig, TopicTable
from gantrymq.protocol.headers.nameserver import RegisterBroker
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import TcpNetwork
from tests.support.brokers import new_client

TOPIC, GROUP, BROKER = "Orders", "shipping", "broker-a"
WAYS: Final = ("no name server", "no broker is registered", "the broker is gone")

_EMPTY = re.compile(
    r"\bnone\b|\bnobody\b(?! reads| can send| finds)"
    r"|\bno [\w-]+ (?:waits|fits|has|have|is behind|was found|yet)\b|\bthere are no\b|\bthere is no\b"
    r"|\bno (?:open|parked|topics?|groups?|users?|transactions?|messages?|consumers?|producers?|clients?|step)\b"
    r"|\bnothing\b(?! answers there)|\bnot read anything\b"
    r"|\bno such\b|^\s*\[\]\s*$|^\s*\{\}\s*$|\b0 (?:fit|messages|open|behind|member)",
    re.IGNORECASE | re.MULTILINE,
)
"""Sentences and bodies that look like the answer of a cluster that has nothing."""
_COULD_NOT_ASK = re.compile(
    r"cannot reach|cannot be reached|does not answer|knows? no broker|start the broker that holds it"
    r"|nothing answers there|No broker is registered at"
)


def wrong(text: str) -> str:
    """Why ``text`` would mislead a person whose cluster is down; "" when it does not."""
    if _COULD_NOT_ASK.search(text) is None:
        return "it does not say that the cluster could not be asked"
    empty = _EMPTY.search(text)
    return f"it says {empty[0]!r} of a cluster that it could not ask" if empty else ""


@contextlib.asynccontextmanager
async def down(way: str) -> AsyncIterator[str]:
    """The addresses of the name servers of a cluster that is down."""
    if way == WAYS[0]:
        yield f"127.0.0.1:{free_port()}"
        return
    server = NameServer(NameServerConfig(listen_host="127.0.0.1", listen_port=0), TcpNetwork(), SystemClock(), OsDisk())
    client = new_client()
    await server.start()
    try:
        if way == WAYS[2]:
            await register(client, server.address)
        yield server.address
    finally:
        await client.close()
        await server.close()


async def register(
    client: RemotingClient, address: str, broker: str = BROKER, at: str | None = None, broker_id: int = 0
) -> None:
    """Register a broker. ``at``: what it advertises; None: it listens nowhere, as one whose machine has lost its
    power."""
    topics = (TOPIC, f"%DLQ%{GROUP}", f"%RETRY%{GROUP}", "RMQ_SYS_TRACE_TOPIC")
    body = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicTable(
            data_version=DataVersion(counter=1, timestamp=1),
            topic_config_table={name: TopicConfig(topic_name=name) for name in topics},
        )
    ).encode()
    header = RegisterBroker(
        broker_name=broker, broker_addr=at or f"127.0.0.1:{free_port()}", cluster_name="DefaultCluster",
        ha_server_addr="127.0.0.1:1", broker_id=broker_id, compressed=False, body_crc32=crc32(body) & 0x7FFFFFFF,
    )  # fmt: skip
    answer = await client.call(address, RequestCode.REGISTER_BROKER, header, body, timeout_ms=5_000)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
