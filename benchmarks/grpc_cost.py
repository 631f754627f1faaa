"""``python -m benchmarks.grpc_cost``: the processor time that the gRPC door and its broker need for one message,
without sockets.

A broker with its door runs in this process without a network, as in ``broker_cost``: it gets the frames of HTTP/2 that
the official Java client would send, as if one read had brought ``--batch`` calls. Only the processor time of the broker
is counted (``thread_time``). A transaction is two calls: SendMessage, and EndTransaction when the first is answered.

``--against DIRECTORY`` measures another checkout, too: both run in turns, ``--pairs`` times, and the ratios are printed
(this checkout as a part of the other one), since the speed of a machine changes by a factor of two.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import os
import pstats
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from google.protobuf.message import Message as Protobuf

from benchmarks.alone import alone
from benchmarks.broker_cost import FORMS, ROUND
from benchmarks.broker_cost import Peer as Remoting
from benchmarks.no_network import NoNetwork, Wire
from gantrymq.broker.broker import Broker
from gantrymq.broker.config import BrokerConfig
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.definition_pb2 import Code, Message, MessageType, Resource, TransactionResolution
from gantrymq.grpc.http2 import frames
from gantrymq.grpc.http2.codes import PREFACE, Flag, Frame
from gantrymq.grpc.http2.hpack import STATIC
from gantrymq.grpc.pool import SERVICE
from gantrymq.grpc.serving.framing import HEAD, framed
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.network import Receiver
from gantrymq.runtime.rng import SystemRng

KINDS: Final = ("send", "transaction")
TOPIC: Final = "T"
GRPC_PORT: Final = 8081
LARGEST: Final = 16 * 1024
TABLE_BYTES: Final = 4_096
_OF_JAVA: Final = (
    (":authority", "127.0.0.1:8081"), (":method", "POST"), (":scheme", "http"), ("content-type", "application/grpc"),
    ("te", "trailers"), ("user-agent", "grpc-java-netty/1.50.0"), ("x-mq-language", "JAVA"),
    ("x-mq-protocol", "v2"), ("x-mq-client-version", "5.2.0"), ("x-mq-client-id", "bench@1@0@abcdefghij"),
    ("grpc-accept-encoding", "gzip"),
)  # fmt: skip
"""The headers of a call that are the same for all calls."""


class HeaderEncoder:
    """Header blocks as Netty writes them: each header goes into the table, and what is in the table is a number."""

    def __init__(self) -> None:
        self._entries: list[tuple[str, str]] = []
        """The newest one is the first."""

    def block(self, headers: Sequence[tuple[str, str]]) -> bytes:
        return b"".join(map(self._one, headers))

    def _one(self, header: tuple[str, str]) -> bytes:
        if header in STATIC:
            return _number(0x80, 7, STATIC.index(header) + 1)
        if header in self._entries:
            return _number(0x80, 7, len(STATIC) + self._entries.index(header) + 1)
        names = [name for name, _ in (*STATIC, *self._entries)]
        known = names.index(header[0]) + 1 if header[0] in names else 0
        self._entries.insert(0, header)
        while sum(len(name) + len(value) + 32 for name, value in self._entries) > TABLE_BYTES:
            self._entries.pop()
        name = b"" if known else _text(header[0])
        return _number(0x40, 6, known) + name + _text(header[1])


def _number(first: int, bits: int, number: int) -> bytes:
    most = (1 << bits) - 1
    if number < most:
        return bytes((first | number,))
    out, rest = bytearray((first | most,)), number - most
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _text(text: str) -> bytes:
    return _number(0, 7, len(text)) + text.encode()


class Peer:
    """A client of gRPC on one connection: makes calls, and counts the processor time that the door needs for them."""

    def __init__(self, receiver: Receiver, profile: cProfile.Profile | None, body_bytes: int) -> None:
        self._session = receiver
        self._wire = Wire()
        self._profile = profile
        self._body = b"x" * body_bytes
        self._encoder = HeaderEncoder()
        self._stream = 1
        self._number = 0
        self.spent_s = 0.0
        receiver.connected(self._wire)
        receiver.received(PREFACE + frames.settings({}) + frames.more_room(0, 1 << 30))

    async def transactions(self, count: int) -> None:
        halves = self._halves(count)
        answers = await self.ask("SendMessage", halves, service.SendMessageResponse)
        ends = [
            service.EndTransactionRequest(
                topic=Resource(name=TOPIC), message_id=answer.entries[0].message_id,
                transaction_id=answer.entries[0].transaction_id, resolution=TransactionResolution.COMMIT,
            )
            for answer in answers
        ]  # fmt: skip
        await self.ask("EndTransaction", ends, service.EndTransactionResponse)

    async def sends(self, count: int) -> None:
        await self.ask("SendMessage", self._messages(count, MessageType.NORMAL), service.SendMessageResponse)

    def _halves(self, count: int) -> list[service.SendMessageRequest]:
        return self._messages(count, MessageType.TRANSACTION)

    def _messages(self, count: int, kind: MessageType) -> list[service.SendMessageRequest]:
        found = []
        for _ in range(count):
            self._number += 1
            message = Message(topic=Resource(name=TOPIC), body=self._body)
            system = message.system_properties
            system.tag, system.message_id, system.message_type = "load", f"01{self._number:032X}", kind
            system.born_host = "a-host"
            system.born_timestamp.GetCurrentTime()
            found.append(service.SendMessageRequest(messages=[message]))
        return found

    async def ask(self, method: str, requests: Sequence[Protobuf], kind: type[Protobuf]) -> list[Protobuf]:
        """Pass calls to the door, as one read, and return their answers, in the order of the calls."""
        out, turns, data = self._wire.out, 0, b"".join(self._call(method, request) for request in requests)
        answers: dict[int, Protobuf] = {}
        while len(answers) < len(requests) or turns < 2:
            started = time.thread_time()
            if self._profile is not None:
                self._profile.enable()
            if data:
                self._session.received(data)
            await asyncio.sleep(0)
            if self._profile is not None:
                self._profile.disable()
            self.spent_s += time.thread_time() - started
            data, turns = b"", turns + 1
            written = b"".join(out)
            out.clear()
            for stream, payload in _data(written):
                answer = answers[stream] = kind.FromString(payload[HEAD.size :])
                if answer.status.code != Code.OK:
                    raise SystemExit(f"grpc_cost: {method} was answered with {answer.status}")
        return [answers[stream] for stream in sorted(answers)]

    def _call(self, method: str, request: Protobuf) -> bytes:
        stream, self._stream = self._stream, self._stream + 2
        own = (
            (":path", f"/{SERVICE}/{method}"), ("x-mq-date-time", time.strftime("%Y%m%dT%H%M%SZ")),
            ("x-mq-request-id", str(uuid.uuid4())), ("grpc-timeout", f"{9_999_000 + stream % 997}u"),
        )  # fmt: skip
        head = frames.headers(stream, self._encoder.block((*_OF_JAVA, *own)), LARGEST, end=False)
        return head + frames.frame(Frame.DATA, Flag.END_STREAM, stream, framed(request.SerializeToString()))


def _data(written: bytes) -> Iterator[tuple[int, bytes]]:
    """Stream and content of each frame of data; answers are small, so that one frame has the whole of one."""
    at = 0
    while at < len(written):
        high, low, kind, _, stream = frames.HEAD.unpack_from(written, at)
        at += frames.HEAD.size
        length = high << 16 | low
        if kind == Frame.DATA:
            yield stream, written[at : at + length]
        at += length


async def measure(chosen: argparse.Namespace, profile: cProfile.Profile | None) -> dict[str, object]:
    scratch = Path(tempfile.mkdtemp(prefix="gantry-cost-", dir=chosen.dir))
    network = NoNetwork()
    try:
        config = BrokerConfig.of(
            store_path_root_dir=str(scratch), listen_port=10911, grpc_port=GRPC_PORT, bind_address="127.0.0.1",
            flush_disk_type="ASYNC_FLUSH", disk_space_warning_level_ratio=100, mapped_file_size_commit_log=64 << 20,
        )  # fmt: skip
        broker = Broker(config, network, SystemClock(), SystemRng(), OsDisk())
        await broker.start()
        # Remoting makes the topic; a door of gRPC makes none.
        network.accept = network.accepts[10911]
        await Remoting(network, FORMS["binary"], 8, None).plain(4)
        peer = Peer(network.accepts[GRPC_PORT](), profile, chosen.size)
        work = peer.transactions if chosen.kind == "transaction" else peer.sends
        await work(4)
        peer.spent_s = 0.0
        rounds: list[float] = []
        each = ROUND // chosen.batch * chosen.batch
        for _ in range(max(1, chosen.count // ROUND)):
            before = peer.spent_s
            for _ in range(ROUND // chosen.batch):
                await work(chosen.batch)
            rounds.append((peer.spent_s - before) / each * 1e6)
        await broker.close()
        return {
            "kind": chosen.kind, "best_us": round(min(rounds), 1), "median_us": round(statistics.median(rounds), 1),
        }  # fmt: skip
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def in_turns(words: Sequence[str], other: Path, pairs: int) -> list[tuple[dict[str, object], dict[str, object]]]:
    """What this checkout and another one need, measured by the same program."""
    found = []
    for _ in range(pairs):
        pair = []
        for source in (Path(__file__).parents[1] / "src", other / "src"):
            environment = {**os.environ, "PYTHONPATH": str(source), "GANTRY_PURE": "1"}
            command = [sys.executable, "-m", "benchmarks.grpc_cost", *words]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
            pair.append(json.loads(done.stdout))
        print(json.dumps(pair), flush=True)
        found.append((pair[0], pair[1]))
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.grpc_cost", description=__doc__)
    arguments.add_argument("--kind", choices=KINDS, default="transaction")
    arguments.add_argument("--batch", type=int, default=8, help="calls that one read brings")
    arguments.add_argument("--size", type=int, default=128, help="bytes of a body")
    arguments.add_argument("--count", type=int, default=10_000, help="messages")
    arguments.add_argument("--dir", default="/dev/shm", help="where the store is made; memory, no disk is measured")
    arguments.add_argument("--profile", type=int, default=0, help="show so many functions, most own time first")
    arguments.add_argument("--against", type=Path, help="another checkout; both are measured in turns, as pure Python")
    arguments.add_argument("--pairs", type=int, default=5, help="of measurements, with --against")
    chosen = arguments.parse_args()
    if chosen.against is not None:
        words = ["--kind", chosen.kind, "--batch", str(chosen.batch), "--size", str(chosen.size)]
        pairs = in_turns([*words, "--count", str(chosen.count), "--dir", chosen.dir], chosen.against, chosen.pairs)
        for field in ("best_us", "median_us"):
            ratios = [float(str(ours[field])) / float(str(theirs[field])) for ours, theirs in pairs]
            print(f"{chosen.kind}, {field}: {statistics.median(ratios):.2f} of {chosen.against.name} (median)")
        return
    profile = cProfile.Profile(time.thread_time) if chosen.profile else None
    print(json.dumps(alone(measure(chosen, profile))))
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(chosen.profile)


if __name__ == "__main__":
    main()
