"""A real name server and broker in this process, over real sockets."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from gantrymq.broker.broker import Broker
from gantrymq.broker.config import BrokerConfig
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng

SMALL: dict[str, Any] = {
    "mapped_file_size_commit_log": 4 * 1024 * 1024,
    "mapped_file_size_consume_queue": 20 * 1000,
    "max_index_num": 2000,
    "max_hash_slot_num": 500,
    "disk_space_warning_level_ratio": 100,
    "disk_space_reserve": 1 << 20,
    "flush_disk_type": "ASYNC_FLUSH",
}


@contextlib.asynccontextmanager
async def name_server() -> AsyncIterator[str]:
    running = NameServer(
        NameServerConfig(listen_host="127.0.0.1", listen_port=0), TcpNetwork(), SystemClock(), OsDisk()
    )
    address = await running.start()
    try:
        yield address
    finally:
        await running.close()


@contextlib.asynccontextmanager
async def broker(directory: Path, name_servers: str, **settings: Any) -> AsyncIterator[Broker]:
    config = BrokerConfig.of(
        store_path_root_dir=str(directory),
        namesrv_addr=name_servers,
        bind_address="127.0.0.1",
        **{"listen_port": 0, **SMALL, **settings},
    )
    disk = OsDisk()
    running = Broker(config, TcpNetwork(), SystemClock(), SystemRng(), disk)
    await running.start()
    try:
        yield running
    finally:
        await running.close()
        disk.close()


@contextlib.asynccontextmanager
async def server(directory: Path, **settings: Any) -> AsyncIterator[str]:
    """The address of a name server with one broker."""
    async with name_server() as address, broker(directory, address, **settings):
        yield address
