"""The environment of a scenario: a broker and time, with the same interface for our broker and for Apache's.

``OurStage`` is our real broker in a simulated process, with virtual time and with disk and network in memory.
``ApacheStage`` (``apache_stage.py``) is a broker of Apache's, with the time of the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from gantrymq.broker.broker import Broker
from gantrymq.broker.config import BrokerConfig
from gantrymq.client.connection.endpoint import Outside
from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import AUTO_CREATE, PARKED, TOOLS_CONSUMER
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.pull import PullMessage, PullMessageAnswer
from gantrymq.protocol.headers.topics import CreateTopic
from gantrymq.protocol.stored_message import scan
from gantrymq.runtime.rng import SystemRng
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.simulation.world.loop import VirtualLoop
from gantrymq.simulation.world.network import SimNetwork
from gantrymq.testing.local.node import Node, NodeClock, own_tasks
from tests.holes.actors import Producer

T = TypeVar("T")

INTERVAL_S: Final = 1.0
"""transactionCheckInterval on every stage."""
CHECK_MAX: Final = 5
"""transactionCheckMax on every stage."""
GIVES_UP_S: Final = 60.0
"""The longest time that a scenario waits for anything."""
EPOCH_MS: Final = 1_800_000_000_000
BODY_LENGTH_AT: Final = 84
"""The position of the length of the body in a record."""
WRONG_LENGTH: Final = b"\x7f\xff\xff\xff"
"""A record with this length cannot be read, and a Java broker runs out of memory when it tries."""
BROKER: Final = "10.0.0.2"


class NotShown(AssertionError):
    """The scenario could not produce the situation in which the hole occurs, so it has no result."""


def require(holds: bool, what: str) -> None:
    """Raise NotShown unless a precondition of the scenario holds."""
    if not holds:
        raise NotShown(what)


def key_of(message: StoredMessage) -> str:
    return properties.find(message.properties_text, properties.UNIQ_KEY) or ""


class Stage(ABC):
    """The interface of a scenario to its broker and to time."""

    outside: Outside
    """The network, clock and disk of the scenario itself."""
    timeout_s: float
    """transactionTimeOut: the immunity of a half message."""

    def __init__(self) -> None:
        self._producers: list[Producer] = []
        self._count = 0
        self._prefix = ""
        """A prefix of all names, so that scenarios on the same broker do not disturb each other."""
        self._reader: Producer | None = None

    @property
    @abstractmethod
    def address(self) -> str:
        """The address of the broker, which is another one after a restart."""

    @abstractmethod
    async def restart(self, *, orderly: bool = False) -> None:
        """End the broker, by SIGKILL or ``orderly`` by SIGTERM, and start it again on its files."""

    @abstractmethod
    def damage(self, log_offset: int) -> None:
        """Destroy the length of a record's body in the log, under the running broker."""

    async def offsets_written(self) -> None:
        """Wait until the broker has just written its consumer offsets, where that matters."""
        return

    @property
    def knows_timers(self) -> bool:
        """Whether the broker has timer messages."""
        return True

    @abstractmethod
    def new_outside(self) -> Outside:
        """The network, clock and disk of another process."""

    # ---- time

    async def sleep(self, seconds: float) -> None:
        await self.outside.clock.sleep(seconds)

    def now(self) -> float:
        """Monotonic seconds."""
        return self.outside.clock.monotonic()

    def wall_ms(self) -> int:
        return self.outside.clock.wall_ms()

    async def until(self, holds: Callable[[], bool | Awaitable[bool]], what: str, seconds: float = GIVES_UP_S) -> None:
        """Poll until ``holds()`` is true. Raises NotShown when that takes too long."""
        if not await self.comes_true(holds, seconds):
            raise NotShown(f"not within {seconds:g} s: {what}")

    async def comes_true(self, holds: Callable[[], bool | Awaitable[bool]], seconds: float) -> bool:
        """Whether ``holds()`` becomes true within ``seconds``."""
        end = self.now() + seconds
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return True
            if self.now() > end:
                return False
            await self.sleep(0.05)

    # ---- producers and topics

    def new_name(self, kind: str) -> str:
        self._count += 1
        return f"{self._prefix}{kind}{self._count}"

    def new_key(self) -> str:
        """A UNIQ_KEY."""
        return self.outside.rng.token(16).hex().upper()

    async def producer(self, group: str | None = None) -> Producer:
        """A live member of a group; without ``group``, of a new group."""
        made = Producer(self.new_outside(), lambda: self.address, group or self.new_name("PG"), self.new_key)
        self._producers.append(made)
        await made.join()
        return made

    async def topic(self) -> str:
        """A new topic of one queue."""
        name = self.new_name("T")
        header = CreateTopic(
            topic=name, default_topic=AUTO_CREATE, read_queue_nums=1, write_queue_nums=1, perm=6,
            topic_filter_type="SINGLE_TAG", order=False,
        )  # fmt: skip
        answer = await self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        require(answer.code == ResponseCode.SUCCESS, f"the topic was not made: {answer.remark}")
        return name

    async def ask(self, code: RequestCode, header: Any = None, body: bytes = b"") -> Command:
        """A request from a connection of no producer group."""
        if self._reader is None:
            self._reader = Producer(self.new_outside(), lambda: self.address, "nobody", self.new_key)
            self._producers.append(self._reader)
        return await self._reader.ask(code, header, body)

    # ---- what was delivered and parked

    async def delivered(self, topic: str) -> list[StoredMessage]:
        """The messages that a consumer gets from a topic, from its beginning."""
        return await self.read(topic, "CG_holes")

    async def keys(self, topic: str) -> list[str]:
        """The UNIQ_KEYs of the messages that a consumer gets from a topic."""
        return [key_of(message) for message in await self.delivered(topic)]

    async def parked(self) -> list[StoredMessage]:
        """The messages in TRANS_CHECK_MAX_TIME_TOPIC, of all scenarios on this broker."""
        return await self.read(PARKED, TOOLS_CONSUMER)

    async def read(self, topic: str, group: str) -> list[StoredMessage]:
        """Queue 0 of a topic, pulled by a group; empty when there is no such topic, or the group may not."""
        found: list[StoredMessage] = []
        offset = 0
        while True:
            header = PullMessage(
                consumer_group=group, topic=topic, queue_id=0, queue_offset=offset, max_msg_nums=32, sys_flag=4,
                commit_offset=0, suspend_timeout_millis=0, sub_version=0, subscription="*", expression_type="TAG",
            )  # fmt: skip
            answer = await self.ask(RequestCode.PULL_MESSAGE, header)
            if answer.code in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION):
                return found
            following = answer.header(PullMessageAnswer).next_begin_offset
            if answer.code == ResponseCode.SUCCESS:
                found += scan(answer.body)
            elif answer.code not in (ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY):
                return found
            require(following > offset, f"reading {topic} makes no progress: {answer.code} {answer.remark}")
            offset = following

    async def leave(self) -> None:
        """End the scenario."""
        for producer in self._producers:
            await producer.leave()
        self._producers.clear()


class OurStage(Stage):
    """Our real broker, in virtual time."""

    def __init__(self, loop: VirtualLoop, **settings: Any) -> None:
        super().__init__()
        self.disk = SimDisk(1)
        self.network = SimNetwork(loop, random.Random(2), Counter())
        self.broker: Broker
        self._loop = loop
        self._hosts = 0
        self._settings = settings
        self.timeout_s = settings.get("transaction_time_out", 1000) / 1000
        self.outside = self.new_outside()
        self._broker_node: Node | None = None
        self.broker_skew_ms = 0

    @property
    def address(self) -> str:
        return f"{BROKER}:10911"

    def new_outside(self) -> Outside:
        self._hosts += 1
        return self._outside(Node(f"process {self._hosts}", self._loop), f"10.0.1.{self._hosts}")

    def _outside(self, node: Node, address: str) -> Outside:
        return Outside(self.network.host(address, node), NodeClock(node, EPOCH_MS), SystemRng(self._hosts), self.disk)

    async def start(self) -> None:
        """Start a new process of the broker on the existing disk."""
        node = self._broker_node = Node("broker", self._loop)
        outside = self._outside(node, BROKER)
        outside.clock.skew_ms = self.broker_skew_ms  # type: ignore[attr-defined]
        values: dict[str, Any] = {
            "broker_ip1": BROKER, "bind_address": BROKER, "store_path_root_dir": "/store",
            "transaction_time_out": 1000, "transaction_check_interval": round(INTERVAL_S * 1000),
            "transaction_check_max": CHECK_MAX, "mapped_file_size_commit_log": 65536,
            "mapped_file_size_consume_queue": 20_000, "max_index_num": 400, "max_hash_slot_num": 100,
            "disk_space_warning_level_ratio": 100,
            "disk_space_reserve": 0,  # a write that fails must be possible
        }  # fmt: skip
        config = BrokerConfig.of(**{**values, **self._settings})
        self.broker = Broker(config, outside.network, outside.clock, outside.rng, self.disk)
        await node.start(self.broker.start())

    def ask_at_once(self, checks: int) -> None:
        """A producer gets so many checks at once, instead of 1,000: the same with fewer messages."""
        self.broker.coordinator.checks._turns._per_producer = checks

    def kill(self) -> None:
        """Kill the broker with SIGKILL. Everything that it wrote is on the disk."""
        self._end()
        self.disk = self.disk.process_dies()

    def cut_power(self) -> None:
        """Cut the power. Writes that were not synced may be lost."""
        self._end()
        self.disk = self.disk.power_cut()

    def _end(self) -> None:
        if self._broker_node is not None:
            self._broker_node.kill()
            self.network.lose_process(self._broker_node)
            self._broker_node = None

    def damage(self, log_offset: int) -> None:
        log = "/store/commitlog"
        name = max(name for name in self.disk.list(log) if int(name) <= log_offset)
        self.disk.open(f"{log}/{name}").write(WRONG_LENGTH, log_offset - int(name) + BODY_LENGTH_AT)

    async def restart(self, *, orderly: bool = False) -> None:
        if orderly and self._broker_node is not None:
            await self._broker_node.start(self.broker.close())
        self.kill()
        await self.start()

    async def leave(self) -> None:
        await super().leave()
        self._end()


def play_ours(play: Callable[[OurStage], Awaitable[T]], **settings: Any) -> T:
    """One scenario against our broker, from its start to its end."""
    loop = VirtualLoop()
    own_tasks(loop)
    stage = OurStage(loop, **settings)

    async def whole() -> T:
        await stage.start()
        try:
            return await play(stage)
        finally:
            await stage.leave()

    return run_to_the_end(loop, whole())


def run_to_the_end(loop: VirtualLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` in virtual time, without log output, and then end the remaining tasks."""
    # Deliberate kills leave callbacks that fail. The scenario checks the results itself.
    loop.set_exception_handler(lambda _loop, _context: None)
    quiet = logging.getLogger("gantrymq")
    level = quiet.level
    quiet.setLevel(logging.CRITICAL + 1)
    asyncio.set_event_loop(None)
    try:
        return loop.run_until_complete(work)
    finally:
        quiet.setLevel(level)
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        with contextlib.suppress(BaseException):
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()
