"""The broker and the name server of a local cluster, and what a killed broker leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gantrymq.broker.broker import Broker
from gantrymq.broker.config import FIELDS, BrokerConfig, convert
from gantrymq.broker.door import Door, Ground, Served
from gantrymq.broker.doors import doors_of
from gantrymq.errors import Closed, ConfigError
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.runtime.addresses import address_of
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.rng import SystemRng
from gantrymq.testing.local.clock import NodeTime
from gantrymq.testing.local.disk import MemoryDisk
from gantrymq.testing.local.in_process import InProcessDoor
from gantrymq.testing.local.network import BROKER_PORT, HOST, NAME_SERVER_PORT, LocalNetwork
from gantrymq.testing.local.node import Node, own_tasks

STORE: Final = "/store"
SMALL: Final[dict[str, Any]] = {"max_hash_slot_num": 1_000, "max_index_num": 4_000, "long_polling_gather_mills": 0}
"""Files of the index are written all over: large ones would have to be filled with zeros. A test that steps through
virtual time gets each message without a step."""


def broker_config(settings: Mapping[str, object]) -> BrokerConfig:
    """The broker's settings, with ``settings`` by RocketMQ's keys. Raises ConfigError naming the key."""
    known: dict[str, Any] = {}
    for key, value in settings.items():
        field = FIELDS.get(key)
        if field is None:
            raise ConfigError(f"{key} is no setting of a broker; write a key of broker.conf, as transactionTimeOut")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        known[field.name] = convert(key, text, str(field.type))
    return BrokerConfig.of(**{
        "listen_port": BROKER_PORT, "bind_address": HOST, "broker_ip1": HOST, "store_path_root_dir": STORE,
        "namesrv_addr": address_of(HOST, NAME_SERVER_PORT), **SMALL, **known,
    })  # fmt: skip


class Servers:
    """All methods belong to the cluster's loop."""

    def __init__(self, config: BrokerConfig, network: LocalNetwork, clock: Clock) -> None:
        self._config = config
        self.broker_name = config.identity.broker_name
        self._network = network
        self._clock = clock
        self.wall_ms = clock.wall_ms
        self._disk = MemoryDisk(clock)
        self._node: Node | None = None
        self._name_server: tuple[Node, NameServer] | None = None
        self.broker: Broker | None = None
        self._door: InProcessDoor | None = None

    @property
    def running(self) -> Broker:
        """The broker; raises Closed when it does not run."""
        if self.broker is None:
            raise Closed("the broker of the local cluster does not run; it could not be started again")
        return self.broker

    @property
    def served(self) -> Served | None:
        """The broker as its doors see it; None when it does not run. Raises Refused while it starts or stops."""
        return None if self._door is None else self._door.broker

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        own_tasks(loop)
        node = Node("name server", loop)
        config = NameServerConfig(listen_host=HOST, listen_port=NAME_SERVER_PORT)
        server = NameServer(config, self._network.of(node), NodeTime(self._clock, node), MemoryDisk(self._clock))
        self._name_server = node, server
        await node.start(server.start())
        await self.start_broker()

    async def start_broker(self) -> None:
        node = self._node = Node(self._config.identity.broker_name, asyncio.get_running_loop())
        made: list[InProcessDoor] = []

        def doors(ground: Ground) -> Sequence[Door]:
            made.append(InProcessDoor(ground))
            return *doors_of(ground), *made

        clock = NodeTime(self._clock, node)
        broker = Broker(self._config, self._network.of(node), clock, SystemRng(), self._disk, doors=doors)
        await node.start(broker.start())
        self.broker, self._door = broker, made[0]

    async def restart_broker(self, *, kill: bool) -> None:
        """``kill``: as by SIGKILL; else in order, as by SIGTERM."""
        if not kill and self.broker is not None and self._node is not None:
            await self._node.start(self.broker.close())
        self.kill_broker()
        await self.start_broker()

    async def stop_broker(self) -> None:
        self.kill_broker()

    def kill_broker(self) -> None:
        """As by SIGKILL: what it has written is there, what it wanted to write is not, and nobody is told."""
        node, self._node, self.broker, self._door = self._node, None, None, None
        if node is None:
            return
        node.kill()
        for port in [port for port, server in self._network.servers.items() if server.node is node]:
            del self._network.servers[port]
        for end in [end for end in self._network.ends if end.node is node]:
            end.sever("the broker was killed")
        self._disk.forget_locks()

    async def close(self) -> None:
        """End both at once; the disk goes with them, so nothing has to be written."""
        if self._name_server is not None:
            node, server = self._name_server
            node.kill()  # so that it has nothing to say about the broker's end
            await server.close()
        self.kill_broker()
