"""A real name server and broker in a thread of this process, for clients that block."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Self

from gantrymq.broker.broker import Broker
from gantrymq.broker.config import BrokerConfig
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import TcpNetwork
from gantrymq.runtime.rng import SystemRng

CHECK_MS = 300
"""Immunity of halves, and the time between two checks: short, for every point waits for its checks in the end."""


class Server:
    """Runs within ``with``; ``address`` is the name server's."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._broker: Broker | None = None
        self.address = ""

    def _config(self) -> BrokerConfig:
        return BrokerConfig.of(
            store_path_root_dir=str(self._directory),
            namesrv_addr=self.address,
            bind_address="127.0.0.1",
            listen_port=0,
            transaction_time_out=CHECK_MS,
            transaction_check_interval=CHECK_MS,
            transaction_check_max=10_000,
            mapped_file_size_commit_log=16 * 1024 * 1024,
            max_index_num=20_000,
            max_hash_slot_num=5_000,
            disk_space_warning_level_ratio=100,
            flush_disk_type="ASYNC_FLUSH",
        )

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), name="server", daemon=True)
        self._thread.start()
        self._started.result(30)
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    @property
    def open_halves(self) -> int:
        """Transactions that are not decided yet."""
        return len(self._broker.coordinator.table) if self._broker is not None else 0

    async def _serve(self) -> None:
        disk = OsDisk()
        names = NameServer(NameServerConfig(listen_host="127.0.0.1", listen_port=0), TcpNetwork(), SystemClock(), disk)
        try:
            self.address = await names.start()
            broker = self._broker = Broker(self._config(), TcpNetwork(), SystemClock(), SystemRng(), disk)
            await broker.start()
        except BaseException as error:
            self._started.set_exception(error)
            raise
        self._loop = asyncio.get_running_loop()
        self._started.set_result(None)
        await self._stop.wait()
        await broker.close()
        await names.close()
        disk.close()
