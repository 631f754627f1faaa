"""``python -m benchmarks.client_cost``: the processor time that the thread of GantryMQ's client needs for one message,
without sockets.

A producer runs in this process without a network: its requests are collected, and answered with prepared frames
(recorded answers of brokers, with placeholders), ``--batch`` of them in one read. Only the processor time of the client
is counted (``thread_time``), including its event loop. Making the answers is not counted. To compare two versions, run
both in turns (``PYTHONPATH`` chooses the version), because the speed of a machine changes by a factor of two.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import statistics
import time
from collections import deque
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import Final

from benchmarks.load import Commit
from gantrymq import tracing
from gantrymq.aio import Message, Producer, TransactionProducer
from gantrymq.client.connection.endpoint import Outside
from gantrymq.message import properties
from gantrymq.protocol.bodies.route import BrokerData, QueueData, TopicRoute
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, decode_command, encode_response
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.send import SendMessage
from gantrymq.runtime.network import Gate, Link, Listener, Receiver

ROUND = 512
"""Messages in a round. The best round shows what the program can do, and the mean what it did in this run."""
TURNS = 3
"""Turns of the event loop until a client that got an answer has sent its next request."""
TOPIC = "T"
NAME_SERVER = "127.0.0.1:9876"
BROKER = "127.0.0.1:10911"
_PREFIX: Final = Struct(">II")
_SENT: Final = (
    b'{"code":0,"extFields":{"queueId":"%%d",%b"msgId":"7F00000100002A9F%%016X","TRACE_ON":"true",'
    b'"MSG_REGION":"DefaultRegion","queueOffset":"%%d"},"flag":1,"language":"%b","opaque":%%d,'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}'
)
ANSWERS: Final = {
    "ours": _SENT % (b'"transactionId":"%b",', b"PYTHON", 513),
    "apache-5": _SENT % (b'"transactionId":"%b",', b"JAVA", 513),
    "apache-4": (
        b'{"code":0,"extFields":{"queueId":"%d","TRACE_ON":"true","MSG_REGION":"DefaultRegion",'
        b'"msgId":"7F00000100002A9F%016X","queueOffset":"%d"},"flag":1,"language":"JAVA","opaque":%d,'
        b'"serializeTypeCurrentRPC":"JSON","version":407}'
    ),
}
"""Answers to sends, by the broker that answers so: queue, UNIQ_KEY (not in 4.x), log offset, queue offset, opaque."""


class _Wire:
    """A link that collects the bytes that are written to it."""

    local = "127.0.0.1:5555"
    unsent = 0

    def __init__(self, peer: str, receiver: Receiver) -> None:
        self.peer = peer
        self.receiver = receiver
        self.out: list[bytes] = []
        self.requests = FrameSplitter()

    def write(self, data: bytes) -> None:
        self.out.append(data)

    def close(self) -> None:
        self.receiver.lost("closed")

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Peers:
    """The network with a name server and a broker; counts the processor time that the client needs."""

    def __init__(self, answers: str, batch: int) -> None:
        self._sent = ANSWERS[answers]
        self._names_keys = b'"transactionId"' in self._sent
        self._batch = batch
        self._wires: list[_Wire] = []
        self._answers: deque[tuple[_Wire, bytes]] = deque()
        self._stored = 0
        self.spent_s = 0.0

    async def listen(self, host: str, port: int, accept: Callable[[], Receiver], gate: Gate | None = None) -> Listener:
        raise NotImplementedError("a client listens nowhere")

    async def connect(self, host: str, port: int, receiver: Receiver, timeout_s: float) -> Link:
        wire = _Wire(f"{host}:{port}", receiver)
        self._wires.append(wire)
        receiver.connected(wire)
        return wire

    async def serve(self, work: Awaitable[object]) -> None:
        """Answer the client until ``work`` is done."""
        task = asyncio.ensure_future(work)
        while not task.done():
            self._read()
            wire, data = self._next_answers()
            started = time.thread_time()
            if wire is not None:
                wire.receiver.received(data)
            for _ in range(TURNS):
                await asyncio.sleep(0)
            self.spent_s += time.thread_time() - started
        await task

    def _next_answers(self) -> tuple[_Wire | None, bytes]:
        if not self._answers:
            return None, b""
        wire = self._answers[0][0]
        frames: list[bytes] = []
        while self._answers and self._answers[0][0] is wire and len(frames) < self._batch:
            frames.append(self._answers.popleft()[1])
        return wire, b"".join(frames)

    def _read(self) -> None:
        for wire in self._wires:
            for frame in wire.requests.feed(b"".join(wire.out)):
                command = decode_command(*frame)
                if not command.is_one_way:
                    self._answers.append((wire, self._answer(command)))
            wire.out.clear()

    def _answer(self, command: Command) -> bytes:
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            route = TopicRoute(
                queue_datas=[QueueData(broker_name="broker-a", read_queue_nums=4, write_queue_nums=4, perm=6)],
                broker_datas=[BrokerData(broker_name="broker-a", broker_addrs={0: BROKER}, cluster="DefaultCluster")],
            )
            return encode_response(command, 0, body=route.encode())
        if command.code != RequestCode.SEND_MESSAGE_V2:
            return encode_response(command, 0)
        header = command.header(SendMessage)
        key = (properties.find(header.properties or "", properties.UNIQ_KEY) or "").encode()
        values = (header.queue_id, *((key,) if self._names_keys else ()))
        answer = self._sent % (*values, self._stored * 256, self._stored // 4, command.opaque)
        self._stored += 1
        return _PREFIX.pack(len(answer) + 4, len(answer)) + answer


async def measure(chosen: argparse.Namespace) -> dict[str, object]:
    peers = Peers(chosen.peer, chosen.batch)
    outside = Outside(network=peers)
    producer: Producer | TransactionProducer
    if chosen.kind == "plain":
        producer = Producer("PG", name_servers=NAME_SERVER, outside=outside)
        send: Callable[[Message], Awaitable[object]] = producer.send
    else:
        producer = TransactionProducer("PG", name_servers=NAME_SERVER, listener=Commit(), outside=outside)
        send = producer.send_in_transaction
    body = b"x" * chosen.size

    async def sends(count: int) -> None:
        for _ in range(count):
            await send(Message(TOPIC, body))

    each = max(1, ROUND // chosen.width)
    await peers.serve(producer.start())
    await peers.serve(sends(1))
    rounds: list[float] = []
    for _ in range(max(1, chosen.count // (each * chosen.width))):
        before = peers.spent_s
        await peers.serve(asyncio.gather(*(sends(each) for _ in range(chosen.width))))
        rounds.append((peers.spent_s - before) / (each * chosen.width) * 1e6)
    await peers.serve(producer.close())
    return {
        "kind": chosen.kind, "peer": chosen.peer, "best_us": round(min(rounds), 1),
        "median_us": round(statistics.median(rounds), 1), "all_us": round(statistics.mean(rounds), 1),
    }  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.client_cost", description=__doc__)
    arguments.add_argument("--kind", choices=("transaction", "plain"), default="plain")
    arguments.add_argument("--peer", choices=tuple(ANSWERS), default="ours", help="whose answers it gets")
    arguments.add_argument("--batch", type=int, default=16, help="answers that one read brings")
    arguments.add_argument("--width", type=int, default=32, help="sends at a time")
    arguments.add_argument("--size", type=int, default=128, help="bytes of a body")
    arguments.add_argument("--count", type=int, default=20_000, help="messages")
    arguments.add_argument("--spans", action="store_true", help="make spans of OpenTelemetry, and export them nowhere")
    chosen = arguments.parse_args()
    if chosen.spans:
        from opentelemetry.sdk.trace import TracerProvider

        tracing.use(TracerProvider())
    logging.disable(logging.CRITICAL)
    gc.freeze()
    try:
        import uvloop

        found = uvloop.run(measure(chosen))
    except ImportError:
        found = asyncio.run(measure(chosen))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
