"""``python -m tools.trips``: through how many files of the package one message goes, and how many functions it calls.

A broker, a name server and their clients run in this process, over loopback. Each trip is made several times before it
is counted, so that nothing of a start is in it. Three figures are printed for each trip:

* **files** whose functions ran;
* **to read**: the files that a person opens who follows the trip. These are the ones that ran, and those of the same
  folders whose classes and functions are named by the functions that ran;
* **calls** of Python functions in those files. This figure varies a little with what one turn of the loop holds.

Send, end and pull count in the whole package: client, protocol, sockets, broker, store. The check-back (from the half
message that is due to its end by the answer) and pop (one message, and its acknowledgement) count in the rooms that
they are about: ``broker/transactions`` with ``transactions``, or ``broker/pop``; the door of remoting; and the values
in ``broker/`` itself. The registries, the selection by tags, the counters and the listeners to new messages serve every
trip, and are left out.

``--source DIR`` measures another source tree (``.../src``), ``--show`` names the files.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gantrymq.aio import PullConsumer, TransactionProducer
    from gantrymq.broker.broker import Broker
    from gantrymq.protocol.command import Command, Header
    from gantrymq.remoting.client import RemotingClient

SOURCE: Final = Path(__file__).resolve().parent.parent / "src"
WARM: Final = 3
"""Trips of each kind before those that are counted."""
COUNTED: Final = 3
TOPIC: Final = "Trips"
GROUP: Final = "CG_trips"
CHECK_AFTER_MS: Final = 150
"""The immunity of half messages: a check-back is counted from the storing of the half message on."""
PATIENCE_S: Final = 20.0
ALL: Final = ("",)
DOOR: Final = ("broker/remoting/", "broker/client.py", "broker/check.py", "broker/refusal.py", "broker/pushes.py")


@dataclass
class Trip:
    """What one message needed."""

    folders: tuple[str, ...]
    """Those below the package that count."""
    called: Counter[str] = field(default_factory=Counter)
    """File, as a path below the package, to calls of its functions."""
    named: set[str] = field(default_factory=set)
    """Files that hold what those functions name."""

    @property
    def read(self) -> list[str]:
        """The files to read."""
        return sorted(set(self.called) | self.named)

    def figures(self) -> dict[str, int]:
        return {"files": len(self.called), "to read": len(self.read), "calls": self.calls}

    @property
    def calls(self) -> int:
        return sum(self.called.values())


class Counting:
    """Counts in a ``with`` block, in this thread. What the block itself calls of the package counts, too."""

    def __init__(self, root: Path, trip: Trip) -> None:
        """``root``: the folder of the package."""
        self._root = str(root) + os.sep
        self._trip = trip
        self._codes: dict[CodeType, dict[str, Any]] = {}

    def __enter__(self) -> None:
        sys.setprofile(self._event)

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)
        for code, names in self._codes.items():
            self._trip.named |= {path for path in map(self._home, _named(code, names)) if self._counts(path)}

    def _event(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(self._root):
            path = code.co_filename[len(self._root) :]
            if self._counts(path):
                self._codes[code] = frame.f_globals
                self._trip.called[path] += 1

    def _counts(self, path: str) -> bool:
        return bool(path) and path.startswith(self._trip.folders)

    def _home(self, value: object) -> str:
        """The file in which something was made; nothing when that is not known."""
        module = sys.modules.get(getattr(value, "__module__", None) or "")
        file = getattr(module, "__file__", None) or ""
        return file[len(self._root) :] if file.startswith(self._root) else ""


def _named(code: CodeType, names: dict[str, Any]) -> Iterator[object]:
    for name in code.co_names:
        if name in names:
            yield names[name]
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _named(inner, names)


class _Undecided:
    """A local transaction that only a check-back decides."""

    def __init__(self) -> None:
        from gantrymq.message.transaction import LocalTransactionState

        self._states = LocalTransactionState

    async def execute_local_transaction(self, message: object, argument: object) -> object:
        return self._states.UNKNOWN

    async def check_local_transaction(self, message: object) -> object:
        return self._states.COMMIT


Begin = Callable[[], Awaitable[object]] | None


@dataclass
class World:
    """A running broker and what asks it."""

    broker: Broker
    peer: RemotingClient
    producer: TransactionProducer
    consumer: PullConsumer
    package: Path

    async def ask(self, code: int, header: Header) -> Command:
        return await self.peer.call(self.broker.address, code, header, timeout_ms=10_000)

    async def measured(
        self, folders: tuple[str, ...], work: Callable[[], Awaitable[object]], begin: Begin = None
    ) -> Trip:
        """Make a trip ``WARM`` times, then count it some times. Kept is the one with the fewest calls: a timer may have
        fired during the others. ``begin``: what comes before it, not counted."""
        found = []
        for number in range(WARM + COUNTED):
            if begin is not None:
                await begin()
            await asyncio.sleep(0.02)  # what follows an answer is no part of the next trip
            if number < WARM:
                await work()
                continue
            trip = Trip(folders)
            with Counting(self.package, trip):
                await work()
                await asyncio.sleep(0)
            found.append(trip)
        return min(found, key=lambda trip: trip.calls)

    def end_of(self, topic: str) -> int:
        return self.broker.store.queue_range(topic, 0)[1]


@asynccontextmanager
async def world(directory: Path) -> AsyncIterator[World]:
    """Everything that the trips need, started and known to each other."""
    import gantrymq
    from gantrymq.aio import PullConsumer, TransactionProducer
    from gantrymq.broker.broker import Broker
    from gantrymq.broker.config import BrokerConfig
    from gantrymq.nameserver.config import NameServerConfig
    from gantrymq.nameserver.nameserver import NameServer
    from gantrymq.protocol.codes import RequestCode
    from gantrymq.protocol.headers.topics import CreateTopic
    from gantrymq.remoting.client import RemotingClient
    from gantrymq.runtime.clock import SystemClock
    from gantrymq.runtime.disk import OsDisk
    from gantrymq.runtime.network import TcpNetwork
    from gantrymq.runtime.rng import SystemRng

    network, clock, rng, disk = TcpNetwork(), SystemClock(), SystemRng(), OsDisk()
    names = NameServerConfig(listen_port=0, listen_host="127.0.0.1", kv_config_path=str(directory / "kv.json"))
    name_server = NameServer(names, network, clock, disk)
    await name_server.start()
    config = BrokerConfig.of(
        store_path_root_dir=str(directory / "store"), listen_port=0, bind_address="127.0.0.1", broker_ip1="127.0.0.1",
        namesrv_addr=name_server.address, flush_disk_type="ASYNC_FLUSH", disk_space_warning_level_ratio=100,
        transaction_time_out=CHECK_AFTER_MS, transaction_check_interval=60_000,
        mapped_file_size_commit_log=4 << 20,
    )  # fmt: skip
    broker = Broker(config, network, clock, rng, disk)
    await broker.start()
    peer = RemotingClient(network, clock, rng)
    topic = CreateTopic(
        topic=TOPIC, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
        topic_filter_type="SINGLE_TAG", order=False, attributes=None,
    )  # fmt: skip
    await peer.call(broker.address, RequestCode.UPDATE_AND_CREATE_TOPIC, topic, timeout_ms=10_000)
    servers: dict[str, Any] = {"name_servers": name_server.address}
    listener: Any = _Undecided()
    async with (
        TransactionProducer("PG_trips", listener=listener, **servers) as producer,
        PullConsumer(GROUP, **servers) as consumer,
    ):
        yield World(broker, peer, producer, consumer, Path(gantrymq.__file__).parent)
    await peer.close()
    await broker.close()
    await name_server.close()


async def trips(directory: Path) -> dict[str, Trip]:
    """All of them, by name."""
    from gantrymq.aio import LocalTransactionState, Message, MessageQueue
    from gantrymq.client.listener import ListenerAnswer
    from gantrymq.protocol.codes import RequestCode
    from gantrymq.protocol.headers.pop import AckMessage, PopMessage, PopMessageAnswer

    halves: list[Any] = []
    async with world(directory) as here:
        producer, consumer = here.producer, here.consumer
        queue = MessageQueue(TOPIC, "broker-a", 0)

        async def send() -> None:
            halves.append(await producer.begin(Message(TOPIC, b"half")))

        async def end() -> None:
            await producer.finish(halves.pop(), ListenerAnswer(LocalTransactionState.COMMIT))

        async def pull() -> None:
            assert (await consumer.pull(queue, 0, 1)).messages

        async def undecided() -> None:
            await producer.send_in_transaction(Message(TOPIC, b"half"))

        async def checked() -> None:
            before, waited = here.end_of(TOPIC), 0.0
            while here.end_of(TOPIC) == before:
                assert waited < PATIENCE_S, "no check-back came"
                await asyncio.sleep(0.01)
                waited += 0.01

        async def pop() -> None:
            wanted = PopMessage(
                consumer_group=GROUP, topic=TOPIC, queue_id=-1, max_msg_nums=1, invisible_time=60_000, poll_time=0,
                born_time=0, init_mode=1, exp_type="TAG", exp="*",
            )  # fmt: skip
            popped = (await here.ask(RequestCode.POP_MESSAGE, wanted)).header(PopMessageAnswer)
            kind, queue_id, first = (popped.start_offset_info or "").split(" ")
            offset = int((popped.msg_offset_info or "").split(" ")[2])
            parts = (
                first,
                popped.pop_time,
                popped.invisible_time,
                popped.revive_qid,
                kind,
                "broker-a",
                queue_id,
                offset,
            )
            handle = " ".join(map(str, parts))
            done = AckMessage(
                consumer_group=GROUP, topic=TOPIC, queue_id=int(queue_id), extra_info=handle, offset=offset
            )
            assert (await here.ask(RequestCode.ACK_MESSAGE, done)).code == 0

        async def send_and_end() -> None:
            await send()
            await end()

        return {
            "send": await here.measured(ALL, send),
            "end": await here.measured(ALL, end, begin=send),
            "pull": await here.measured(ALL, pull),
            "check-back": await here.measured(
                ("broker/transactions/", "transactions/", *DOOR), checked, begin=undecided
            ),
            "pop and acknowledgement": await here.measured(("broker/pop/", *DOOR), pop, begin=send_and_end),
        }


def measured(source: Path = SOURCE) -> dict[str, Trip]:
    """The trips of a source tree. Once per process, because it imports the package."""
    sys.path.insert(0, str(source))
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="gantry-trips-") as directory:
        return asyncio.run(trips(Path(directory)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.trips", description=__doc__)
    parser.add_argument("--source", type=Path, default=SOURCE, help="the source tree")
    parser.add_argument("--json", action="store_true", help="print the figures for a program")
    parser.add_argument("--show", action="store_true", help="name the files")
    chosen = parser.parse_args()
    found = measured(chosen.source)
    if chosen.json:
        print(json.dumps({name: trip.figures() for name, trip in found.items()}))
        return 0
    print(f"{'trip':24} {'files':>6} {'to read':>8} {'calls':>6}")
    for name, trip in found.items():
        print(f"{name:24} {len(trip.called):6} {len(trip.read):8} {trip.calls:6}")
        if chosen.show:
            print("\n".join(f"    {path:50} {trip.called[path] or ''}" for path in trip.read))
    return 0


if __name__ == "__main__":
    sys.exit(main())
