"""One real broker on a simulated disk, in virtual time, and clients that call it without a network in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from gantrymq.broker.broker import Broker
from gantrymq.broker.config import BrokerConfig
from gantrymq.errors import Unreachable
from gantrymq.protocol.command import Command, Header, decode_command, encode_request
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.remoting.session import Session
from gantrymq.runtime.addresses import address_of
from gantrymq.runtime.network import Gate, Link, Listener, Receiver
from gantrymq.runtime.rng import SystemRng
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.simulation.world.loop import VirtualLoop
from gantrymq.testing.local.node import Node, NodeClock, own_tasks

T = TypeVar("T")

ADDRESS = "10.0.0.2"
EPOCH_MS = 1_800_000_000_000
RESERVE_BYTES = 16 * 1024
"""Kept for a full disk: two files of the log."""
CHECKS = 2
"""Checks before a half message is parked."""


def settings(flush: str) -> BrokerConfig:
    """A broker whose files are small, so that a short workload meets their ends. The file of a queue is a little larger
    than a sector of 512 bytes, and its 26th entry lies in two."""
    return BrokerConfig.of(
        broker_ip1=ADDRESS, bind_address=ADDRESS, store_path_root_dir="/store", flush_disk_type=flush,
        mapped_file_size_commit_log=8192, mapped_file_size_consume_queue=520, max_index_num=48, max_hash_slot_num=16,
        transaction_time_out=4000, transaction_check_interval=2000, transaction_check_max=CHECKS,
        message_delay_level="1s 5s", revive_queue_num=1, delete_when="", mapped_file_size_timer_log=1040,
        disk_space_warning_level_ratio=100, disk_space_reserve=RESERVE_BYTES, auto_create_topic_enable=False,
    )  # fmt: skip


class _Listening:
    def __init__(self, address: str) -> None:
        self.address = address

    async def close(self) -> None:
        """Nobody listens any more; there was nothing to give back."""


class _Inside:
    """A network of one host: whoever is in this process gets a connection."""

    def __init__(self) -> None:
        self.accept: Callable[[], Receiver] | None = None

    async def listen(self, host: str, port: int, accept: Callable[[], Receiver], gate: Gate | None = None) -> Listener:
        self.accept = self.accept or accept
        return _Listening(address_of(host, port))

    async def connect(self, host: str, port: int, receiver: Receiver, timeout_s: float) -> Link:
        raise Unreachable(address_of(host, port), "there is no other host")


class Client:
    """One connection. What the broker sends arrives at once: an answer is here when it was written."""

    unsent = 0

    def __init__(self, session: Receiver, number: int, heard: Callable[[Command], None]) -> None:
        self.peer = f"10.0.1.{number}:40000"
        self.local = f"{ADDRESS}:10911"
        self._session = session
        self._heard = heard
        self._splitter = FrameSplitter()
        self._opaque = 0
        self._answers: dict[int, Callable[[Command], None]] = {}
        session.connected(self)

    def ask(
        self, code: int, header: Header | None, then: Callable[[Command], None], body: bytes = b""
    ) -> asyncio.Future[Command]:
        """Send a request; ``then`` is called the moment its answer is written, and the future has it."""
        self._opaque += 1
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()

        def answered(command: Command) -> None:
            then(command)
            answer.set_result(command)

        self._answers[self._opaque] = answered
        self._session.received(encode_request(code, self._opaque, header, body))
        return answer

    def tell(self, code: int, header: Header | None, body: bytes = b"") -> None:
        """Send a request that is not answered."""
        self._opaque += 1
        self._session.received(encode_request(code, self._opaque, header, body, one_way=True))

    # What the broker's side calls.

    def write(self, data: bytes) -> None:
        for parts in self._splitter.feed(data):
            command = decode_command(*parts)
            if command.is_response:
                answered = self._answers.pop(command.opaque, None)
                if answered is not None:
                    answered(command)
            else:
                self._heard(command)

    def close(self) -> None:
        self._session.lost("closed")

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        """LogPositions never wait here."""

    def resume_reading(self) -> None:
        """LogPositions never wait here."""


class Station:
    """A broker's process on a disk. ``later_ms``: how late it is compared with the beginning of the workload."""

    def __init__(self, disk: SimDisk, flush: str, later_ms: int = 0) -> None:
        self.disk = disk
        self.loop = VirtualLoop()
        own_tasks(self.loop)
        self.loop.set_exception_handler(self._unexpected)
        self.errors: list[str] = []
        self._node = Node("broker", self.loop)
        self._inside = _Inside()
        self._clients = 0
        self._start_ms = later_ms
        clock = NodeClock(self._node, EPOCH_MS + later_ms)
        self.broker = Broker(settings(flush), self._inside, clock, SystemRng(1), disk)

    @property
    def now_ms(self) -> int:
        """Since the beginning of the workload."""
        return self._start_ms + int(self.loop.time() * 1000)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Let it do something, and whatever else is due meanwhile."""
        return self.loop.run_until_complete(self._node.start(work))

    def client(self, heard: Callable[[Command], None] = lambda _command: None) -> Client:
        """A new connection. ``heard``: gets the broker's own requests."""
        if self._inside.accept is None:
            raise Unreachable(ADDRESS, "the broker is not started")
        self._clients += 1
        session = self._inside.accept()
        if not isinstance(session, Session):
            raise TypeError("a broker's connections are sessions")
        return Client(session, self._clients, heard)

    def end(self) -> None:
        """The process is gone: nothing of it goes on."""
        self._node.kill()
        self.loop.set_exception_handler(lambda _loop, _context: None)
        tasks = asyncio.all_tasks(self.loop)
        with contextlib.suppress(BaseException):  # a power cut may come out of anything
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()

    def _unexpected(self, _loop: object, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, asyncio.CancelledError):
            self.errors.append(f"{context.get('message')}: {type(error).__name__}: {error}")
