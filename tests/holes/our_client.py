"""Our real TransactionProducer in a scenario, as if in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

from gantrymq.aio import TransactionListener, TransactionProducer
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.testing.local.node import Node
from tests.holes.apache_stage import ApacheStage
from tests.holes.stage import OurStage, Stage

HOST: Final = "10.0.0.1"
NAME_SERVER: Final = f"{HOST}:9876"
"""The name server of OurStage. A case that uses our client has ``ours={"namesrv_addr": NAME_SERVER}``."""


@contextlib.asynccontextmanager
async def our_client(
    stage: Stage, listener: TransactionListener, **settings: Any
) -> AsyncIterator[TransactionProducer]:  # fmt: skip
    """A started producer of a new group. On OurStage this starts a name server, too."""
    name_servers = await _name_servers(stage)
    producer = TransactionProducer(
        stage.new_name("PG"), name_servers=name_servers, listener=listener, outside=stage.new_outside(), **settings
    )
    await producer.start()
    try:
        yield producer
    finally:
        await producer.close()


async def _name_servers(stage: Stage) -> str:
    if isinstance(stage, ApacheStage):
        return stage._house.cluster.name_servers
    assert isinstance(stage, OurStage)
    node = Node("name server", stage._loop)
    outside = stage._outside(node, HOST)
    server = NameServer(NameServerConfig(listen_host=HOST), outside.network, outside.clock, SimDisk())
    await node.start(server.start())
    known = asyncio.Event()
    stage.broker.registration.when_announced(known.set)
    await known.wait()
    return NAME_SERVER
