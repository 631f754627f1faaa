"""``python -m benchmarks.grpc_door``: sends through the gRPC door beside sends through the remoting door, in turns.

One broker in a process of its own serves both. ``--waiting`` sends are under way at any time; what a client costs is
not counted. Printed are messages a second and the broker's processor time for a message, and the ratio of both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc.aio

from benchmarks import processes
from gantrymq import aio
from gantrymq.demo.ports import free_port
from gantrymq.grpc import service_pb2 as service
from gantrymq.grpc.definition_pb2 import Code, Message, MessageType, Resource
from gantrymq.grpc.pool import SERVICE
from gantrymq.message.message import Message as OurMessage

TOPIC = "Bench"
Pair = dict[str, dict[str, float]]
HEADERS = (("x-mq-client-id", "bench"), ("x-mq-language", "PYTHON"))


async def _measured(send: Callable[[], Awaitable[object]], waiting: int, seconds: float, pid: int) -> dict[str, float]:
    """Messages a second, and the broker's microseconds for each."""
    sent, end, before = 0, time.perf_counter() + seconds, processes.cpu_s(pid)

    async def one() -> None:
        nonlocal sent
        while time.perf_counter() < end:
            await send()
            sent += 1

    await asyncio.gather(*(one() for _ in range(waiting)))
    return {"messages_per_s": sent / seconds, "broker_us": (processes.cpu_s(pid) - before) / sent * 1e6}


async def _pairs(
    options: argparse.Namespace, name_server: str, pid: int, port: int
) -> list[dict[str, dict[str, float]]]:
    body, found = b"x" * options.size, []
    async with (
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        aio.Admin(name_server) as admin,
        aio.Producer("bench", name_servers=name_server) as producer,
    ):
        await admin.create_topic(TOPIC)
        method = channel.unary_unary(
            f"/{SERVICE}/SendMessage", service.SendMessageRequest.SerializeToString,
            service.SendMessageResponse.FromString,
        )  # fmt: skip
        numbers = iter(range(1 << 40))

        async def by_grpc() -> None:
            message = Message(topic=Resource(name=TOPIC), body=body)
            message.system_properties.message_id = f"01{next(numbers):032X}"
            message.system_properties.message_type = MessageType.NORMAL
            answer = await method(service.SendMessageRequest(messages=[message]), timeout=10, metadata=HEADERS)
            assert answer.status.code == Code.OK, answer

        async def by_remoting() -> None:
            await producer.send(OurMessage(TOPIC, body))

        for _ in range(options.pairs + 1):
            found.append({
                "grpc": await _measured(by_grpc, options.waiting, options.seconds, pid),
                "remoting": await _measured(by_remoting, options.waiting, options.seconds, pid),
            })  # fmt: skip
    return found[1:]  # the first one warms up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--waiting", type=int, default=32, help="sends that are under way at any time")
    parser.add_argument("--size", type=int, default=1000, help="bytes of a body")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root, port = Path(scratch), free_port()
        config = root / "broker.conf"
        config.write_text(f"grpcPort={port}\n")
        with processes.server(root / "store", "async", root / "log", config) as running:
            pairs = asyncio.run(_pairs(options, running.name_server, running.pid, port))
    for pair in pairs:
        print(json.dumps(pair))
    for field in ("messages_per_s", "broker_us"):
        print(
            f"{field}: grpc to remoting {statistics.median(p['grpc'][field] / p['remoting'][field] for p in pairs):.2f}"
        )


if __name__ == "__main__":
    main()
