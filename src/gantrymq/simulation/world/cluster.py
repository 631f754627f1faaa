"""A name server, brokers, services and a consumer: the real ones, each in a simulated process of its own."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from gantrymq.broker.broker import Broker
from gantrymq.broker.config import BrokerConfig
from gantrymq.client.connection.endpoint import Outside
from gantrymq.errors import DiskFull, GantryError
from gantrymq.nameserver.config import NameServerConfig
from gantrymq.nameserver.nameserver import NameServer
from gantrymq.runtime.rng import SystemRng
from gantrymq.simulation.judging.history import History
from gantrymq.simulation.workload import IMMUNITY_MS, Chances, Database, Reader, Shop
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.simulation.world.loop import VirtualLoop
from gantrymq.simulation.world.network import SimNetwork
from gantrymq.simulation.world.records import SimEtcd
from gantrymq.testing.local.node import Node, NodeClock, Process, own_tasks

EPOCH_MS = 1_800_000_000_000
NAME_SERVER = "10.0.0.1"
NAME_SERVERS = f"{NAME_SERVER}:9876"
BROKER_PORT = 10911
DECISIVE = 0.6
"""How likely it is that a service says its checker is decisive. It is in any case; one that does not say so must not be
asked early, and must not answer when another one has vouched for it."""
SMALL_FILES: dict[str, Any] = {
    "mapped_file_size_commit_log": 16384, "mapped_file_size_consume_queue": 2000, "max_index_num": 200,
    "max_hash_slot_num": 50, "disk_space_warning_level_ratio": 100, "disk_space_reserve": 1 << 16,
    "mapped_file_size_timer_log": 1040, "clean_file_forcibly_enable": False,
}  # fmt: skip
"""So that a short run meets the ends of files, too. And a full disk deletes no messages before their time, whether they
were consumed or not: an operator may choose that, and then nobody promises that they arrive."""
START_GRACE_MS: Final = 2_000
"""How long a broker that was started waits for the senders of its open halves: less than their immunity, or it would
not matter here."""


@dataclass(slots=True)
class BrokerHost:
    """A machine for a broker: its disk outlives the process."""

    name: str
    address: str
    disk: SimDisk
    node: Node | None = None
    broker: Broker | None = None
    clock: NodeClock | None = None
    skew_ms: int = 0
    """How wrong its clock is, now and at its next start."""
    opened_end: int = 0
    """Of the log when the process that runs was started: what lies before was written by an earlier one."""
    starts: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    """Of this broker only."""


@dataclass(slots=True)
class Cluster:
    """Everything that runs, with the history of it."""

    loop: VirtualLoop
    rng: random.Random
    history: History
    network: SimNetwork
    injected: Counter[str]
    database: Database
    chances: Chances
    settings: dict[str, Any]
    brokers: list[BrokerHost] = field(default_factory=list)
    services: list[Shop] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    """Every process there was."""
    errors: list[str] = field(default_factory=list)
    started: Callable[[str, Broker], None] = lambda name, broker: None
    """Called with each broker that has started."""
    busy: bool = False
    """Whether an operator changes who is primary."""
    etcd: SimEtcd | None = None
    """Where the record of a group lies; None: the brokers are no group."""
    synchronous: dict[int, list[Any]] = field(default_factory=dict)
    """What each synchronous primary waits for, by its id: that, and where its log ended then; -1: it is copied."""
    _processes: int = 0

    @staticmethod
    def build(seed: int, brokers: int = 2, **settings: Any) -> Cluster:
        """Nothing runs yet."""
        loop = VirtualLoop()
        own_tasks(loop)
        rng = random.Random(seed)
        injected: Counter[str] = Counter()
        history = History(lambda: int(loop.time() * 1000))
        network = SimNetwork(loop, random.Random(rng.randrange(1 << 62)), injected)
        made = Cluster(loop, rng, history, network, injected, Database(history), Chances(), settings)
        for number in range(brokers):
            disk = SimDisk(rng.randrange(1 << 32))
            disk.watch(injected)
            disk.now_ms = EPOCH_MS  # files are as old as the run: retention leaves them
            made.brokers.append(BrokerHost(f"broker-{number}", f"10.0.0.{number + 2}", disk))
        return made

    def process(self, name: str, address: str) -> Process:
        """A new process."""
        node = Node(name, self.loop)
        self.nodes.append(node)
        clock = NodeClock(node, EPOCH_MS)
        seeded = SystemRng(self.rng.randrange(1 << 62))
        outside = Outside(self.network.host(address, node), clock, seeded)
        return Process(node, address, clock, outside, NAME_SERVERS)

    async def start_name_server(self) -> None:
        process = self.process("name server", NAME_SERVER)
        outside = process.outside
        server = NameServer(NameServerConfig(listen_host=NAME_SERVER), outside.network, outside.clock, SimDisk())
        await process.node.start(server.start())

    async def start_broker(self, host: BrokerHost) -> None:
        """Start it (again); raises what the broker raises when it cannot."""
        process = self.process(host.name, host.address)
        node, host.clock, outside = process.node, process.clock, process.outside
        host.clock.skew_ms = host.skew_ms
        usual = {"broker_name": host.name, "decisive_check_grace_at_start": START_GRACE_MS, **SMALL_FILES}
        own = {**usual, **self.settings, **host.settings}
        config = BrokerConfig.of(
            broker_ip1=host.address, listen_port=BROKER_PORT, bind_address=host.address,
            namesrv_addr=NAME_SERVERS, store_path_root_dir="/store", transaction_time_out=IMMUNITY_MS,
            transaction_check_interval=2000, transaction_check_max=1000,
            **own,
        )  # fmt: skip
        records = None if self.etcd is None else self.etcd.records(host.address)
        host.broker = Broker(config, outside.network, outside.clock, outside.rng, host.disk, records=records)
        host.node = node
        host.starts += 1
        await node.start(host.broker.start())
        self.started(host.name, host.broker)
        host.opened_end = host.broker.store.max_log_offset

    async def start_service(self) -> Shop:
        self._processes += 1
        process = self.process(f"service-{self._processes}", f"10.0.1.{self._processes % 250 + 1}")
        rng = random.Random(self.rng.randrange(1 << 62))
        service = Shop(
            process, self.database, rng, self.chances, self.die, self.injected,
            siblings=self.services, one_way=self._processes % 3 == 2, decisive=rng.random() < DECISIVE,
        )  # fmt: skip
        await process.node.start(service.start())
        self.services.append(service)
        return service

    async def start_reader(self) -> Reader:
        process = self.process("reader", "10.0.2.1")
        reader = Reader(process, self.history)
        await process.node.start(reader.start())
        self.readers.append(reader)
        return reader

    def kill(self, node: Node) -> None:
        """SIGKILL: the process ends, its kernel closes what it had open."""
        self.history.add("gone", process=node.name)
        node.kill()
        self.network.lose_process(node)

    def die(self, node: Node) -> None:
        """A process ends by itself; now and then its whole machine does, and nobody is told."""
        if self.rng.random() < 0.3:
            self.injected["host vanished between row and end"] += 1
            self.history.add("gone", process=node.name)
            node.kill()
        else:
            self.injected["service died between row and end"] += 1
            self.kill(node)

    def cut_power(self, host: BrokerHost) -> None:
        """The machine goes off: what was not synced may be gone, or torn."""
        self.injected["power cut"] += host.node is not None
        self.stop(host)
        host.disk = host.disk.power_cut()

    def kill_broker(self, host: BrokerHost) -> None:
        """Only the process ends; every write is there."""
        self.injected["process killed"] += host.node is not None
        self.stop(host)
        host.disk = host.disk.process_dies()

    def stop(self, host: BrokerHost) -> None:
        """End its process, if one runs; the disk stays as it is."""
        if host.node is not None:
            self.kill(host.node)
        coordinator = getattr(host.broker, "coordinator", None)
        for half in () if coordinator is None else coordinator.table:
            half.waiting = None  # nobody will be told; and the collector does not look into halves for cycles
        host.node = host.broker = None

    async def revive(self, host: BrokerHost) -> None:
        """Start a broker that is down, as a supervisor does; what keeps it from starting is an error of the run."""
        if host.node is None:
            try:
                await self.start_broker(host)
            except asyncio.CancelledError:
                if host.node is not None and host.node.alive:
                    raise  # we shall end; else it was killed while it started, and its killer revives it
            except DiskFull as error:
                if host.disk.free_bytes is None:
                    self.errors.append(f"{host.name} does not start again: {error}")
                self.stop(host)
            except (GantryError, OSError) as error:
                self.errors.append(f"{host.name} does not start again: {type(error).__name__}: {error}")
                self.stop(host)
