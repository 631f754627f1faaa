"""``python -m benchmarks.transaction_load``: sends transactions to a broker process, like Apache's benchmark.

``--threads`` senders share one connection. Each sends a half message, waits for its answer, commits it one-way, and
continues. The client uses very little processor time, so that the figures show the broker: transactions per second,
processor time per transaction (of all threads, including the kernel), and reads and writes per transaction (of sockets
and files). ``PYTHONPATH`` chooses the version of the broker; run two versions in turns to compare them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
from pathlib import Path
from typing import cast

import uvloop

from benchmarks import processes
from benchmarks.broker_cost import COMMIT, FORMS, HALF_PROPERTIES, HEARTBEAT, PROPERTIES, TOPIC
from gantrymq.message.system_topics import AUTO_CREATE
from gantrymq.protocol.bodies.route import TopicRoute
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import SerializeType, decode_command, encode_request
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.nameserver import GetRoute
from gantrymq.protocol.headers.send import SendMessage
from gantrymq.protocol.headers.transaction import EndTransaction

WARM_UP = 0.1
"""The share of the transactions that comes first and is not counted."""


class Senders(asyncio.Protocol):
    """All senders. When a half message is answered, its sender commits it and sends the next."""

    transport: asyncio.Transport

    def __init__(self, form: SerializeType, threads: int, body_bytes: int) -> None:
        self._form = form
        self._threads = threads
        self._body = b"x" * body_bytes
        self._splitter = FrameSplitter()
        self._number = self._answered = self._total = 0
        self._done: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(encode_request(RequestCode.HEART_BEAT, 0, body=HEARTBEAT))

    async def run(self, total: int) -> float:
        """Make ``total`` transactions. Returns the time in seconds."""
        self._number = self._answered = 0
        self._total = total
        self._done = asyncio.get_running_loop().create_future()
        started = time.perf_counter()
        self.transport.write(b"".join([self._half() for _ in range(min(self._threads, total))]))
        await self._done
        return time.perf_counter() - started

    def _half(self) -> bytes:
        self._number += 1
        number = self._number
        header = SendMessage(
            producer_group="PG", topic=TOPIC, default_topic=AUTO_CREATE, default_topic_queue_nums=4,
            queue_id=number % 4, sys_flag=4, born_timestamp=time.time_ns() // 1_000_000, flag=0,
            properties=HALF_PROPERTIES + PROPERTIES.format(number), reconsume_times=0, unit_mode=False, batch=False,
        )  # fmt: skip
        return encode_request(RequestCode.SEND_MESSAGE_V2, number, header, self._body, serialize=self._form)

    def data_received(self, data: bytes) -> None:
        out = []
        for form, head, body in self._splitter.feed(data):
            answer = decode_command(form, head, body)
            if not answer.opaque:
                continue  # the answer to the heartbeat
            assert answer.code == 0, answer.remark
            found = answer.ext_fields()
            end = EndTransaction(
                producer_group="PG", tran_state_table_offset=int(found["queueOffset"]),
                commit_log_offset=int(found["msgId"][-16:], 16), commit_or_rollback=COMMIT,
                from_transaction_check=False, msg_id=found["transactionId"], transaction_id=found["transactionId"],
                topic=TOPIC, bname="broker-a",
            )  # fmt: skip
            out.append(encode_request(RequestCode.END_TRANSACTION, 1, end, one_way=True, serialize=self._form))
            self._answered += 1
            if self._number < self._total:
                out.append(self._half())
        self.transport.write(b"".join(out))
        if self._answered == self._total and self._done is not None and not self._done.done():
            self._done.set_result(None)


async def broker_address(name_server: str) -> tuple[str, int]:
    host, port = name_server.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(encode_request(RequestCode.GET_ROUTEINFO_BY_TOPIC, 1, GetRoute(topic=AUTO_CREATE)))
    splitter = FrameSplitter()
    while not (frames := splitter.feed(await reader.read(65536))):
        pass
    writer.close()
    address = TopicRoute.decode(decode_command(*frames[0]).body).broker_datas[0].master
    assert address is not None
    return address.split(":")[0], int(address.split(":")[1])


def _reads_and_writes(pid: int) -> tuple[int, int]:
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["syscr"]), int(fields["syscw"])


async def measure(chosen: argparse.Namespace, running: processes.Running) -> dict[str, object]:
    address = await broker_address(running.name_server)
    loop = asyncio.get_running_loop()
    _, senders = await loop.create_connection(
        lambda: Senders(FORMS[chosen.form], chosen.threads, chosen.size), *address
    )
    await senders.run(int(chosen.count * WARM_UP))
    cpu, (reads, writes) = running.cpu_s(), _reads_and_writes(running.pid)
    seconds = await senders.run(chosen.count)
    cpu, (reads_now, writes_now) = running.cpu_s() - cpu, _reads_and_writes(running.pid)
    senders.transport.close()
    return {
        "form": chosen.form, "threads": chosen.threads, "per_second": round(chosen.count / seconds),
        "broker_cpu_us": round(cpu / chosen.count * 1e6, 1),
        "reads": round((reads_now - reads) / chosen.count, 2), "writes": round((writes_now - writes) / chosen.count, 2),
    }  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.transaction_load", description=__doc__)
    arguments.add_argument("--form", choices=tuple(FORMS), default="binary", help="form of the headers")
    arguments.add_argument("--flush", choices=("async", "sync"), default="async")
    arguments.add_argument("--threads", type=int, default=32)
    arguments.add_argument("--size", type=int, default=128, help="bytes of a body")
    arguments.add_argument("--count", type=int, default=20_000, help="transactions")
    chosen = arguments.parse_args()
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gantry-load-")))
        running = stack.enter_context(processes.server(scratch / "store", chosen.flush, scratch / "log"))
        print(json.dumps(uvloop.run(measure(chosen, running))))


if __name__ == "__main__":
    main()
