"""``python -m benchmarks.consume_cost``: the processor time that a broker's thread needs for reading, without sockets.

It measures as ``benchmarks.broker_cost`` does. ``--kind pull`` reads messages that are stored. ``held`` pulls before
the messages are stored; the sends that wake these pulls are counted, too. ``pop`` takes messages and acknowledges each
one (with JSON headers only, because the compact header has no room for its code). Figures are microseconds per request,
for ``pop`` per message. To compare two versions, run both in turns (``PYTHONPATH`` chooses the version).
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from pathlib import Path

from benchmarks.alone import alone
from benchmarks.broker_cost import FORMS, TOPIC, Peer
from benchmarks.no_network import NoNetwork
from gantrymq.broker.broker import Broker
from gantrymq.broker.config import BrokerConfig
from gantrymq.message.receipt_handle import ReceiptHandle
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, SerializeType, decode_command, encode_request
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.pop import AckMessage, PopMessage, PopMessageAnswer
from gantrymq.protocol.headers.pull import PullMessage
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.rng import SystemRng

GROUP = "CG"
QUEUES = 4
HOLD, INLINE_SUBSCRIPTION = 2, 4
INVISIBLE_MS = 600_000
STORED = 4096
"""The number of messages in all queues before the first pull."""
REQUESTS_PER_ROUND = 256


class Reader:
    """A consumer that sends several requests at once, like a consumer of several queues."""

    def __init__(self, peer: Peer, form: SerializeType, count: int) -> None:
        self._peer = peer
        self._form = form
        self._count = count
        self._opaque = 0
        self._ends = [0] * QUEUES
        self.requests = 0

    def _request(self, code: RequestCode, header: PullMessage | PopMessage | AckMessage) -> bytes:
        self._opaque += 1
        return encode_request(code, self._opaque, header, serialize=self._form)

    def _pull(self, queue_id: int, offset: int, sys_flag: int) -> bytes:
        header = PullMessage(
            consumer_group=GROUP, topic=TOPIC, queue_id=queue_id, queue_offset=offset, max_msg_nums=self._count,
            sys_flag=sys_flag, commit_offset=0, suspend_timeout_millis=15_000, sub_version=0, subscription="*",
            expression_type="TAG", bname="broker-a",
        )  # fmt: skip
        return self._request(RequestCode.PULL_MESSAGE, header)

    async def pull(self, requests: int) -> int:
        """Pull messages that are stored. Returns the number of answers."""
        last = STORED // QUEUES - self._count
        frames = [
            self._pull(number % QUEUES, (number * self._count) % last, HOLD | INLINE_SUBSCRIPTION)
            for number in range(requests)
        ]
        for answer in _commands(await self._peer.ask(b"".join(frames), requests)):
            assert answer.code == ResponseCode.SUCCESS, answer.remark
        return requests

    async def held(self, requests: int) -> int:
        """Pull at the ends of the queues. Each pull gets a message that is sent later."""
        for _ in range(requests // QUEUES):
            frames = [self._pull(queue, self._ends[queue], HOLD | INLINE_SUBSCRIPTION) for queue in range(QUEUES)]
            assert not await self._peer.ask(b"".join(frames), 0)
            answers = _commands(await self._peer.ask(self._peer.sends(QUEUES, half=False), 2 * QUEUES))
            assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
            self._ends = [end + 1 for end in self._ends]
        return requests // QUEUES * QUEUES

    async def pop(self, requests: int) -> int:
        """Pop messages and acknowledge each one. Returns the number of messages."""
        messages = requests // self._count * self._count
        spent = self._peer.spent_s
        await self._peer.plain(messages)
        self._peer.spent_s = spent
        taken = 0
        while taken < messages:
            header = PopMessage(
                consumer_group=GROUP, topic=TOPIC, queue_id=-1, max_msg_nums=self._count, invisible_time=INVISIBLE_MS,
                poll_time=0, born_time=0, init_mode=1, exp_type="TAG", exp="*",
            )  # fmt: skip
            (answer,) = _commands(await self._peer.ask(self._request(RequestCode.POP_MESSAGE, header), 1))
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            acks = [self._request(RequestCode.ACK_MESSAGE, ack) for ack in _acks(answer)]
            for done in _commands(await self._peer.ask(b"".join(acks), len(acks))):
                assert done.code == ResponseCode.SUCCESS, done.remark
            taken += len(acks)
        return taken

    def begin_at(self, end: int) -> None:
        """Begin where the queues have ``end`` messages each."""
        self._ends = [end] * QUEUES


def _commands(data: bytes) -> list[Command]:
    return [decode_command(form, head, body) for form, head, body in FrameSplitter().feed(data)]


def _acks(answer: Command) -> list[AckMessage]:
    """The acknowledgements of all messages in the answer to a pop."""
    found = answer.header(PopMessageAnswer)
    acks: list[AckMessage] = []
    starts = (found.start_offset_info or "").split(";")
    for start, message in zip(starts, (found.msg_offset_info or "").split(";"), strict=True):
        kind, queue_id, first = start.split(" ")
        for offset in message.split(" ")[2].split(","):
            handle = ReceiptHandle(
                int(first), found.pop_time, found.invisible_time, found.revive_qid, kind, "broker-a", int(queue_id),
                int(offset),
            )  # fmt: skip
            acks.append(
                AckMessage(
                    consumer_group=GROUP, topic=TOPIC, queue_id=int(queue_id), extra_info=str(handle),
                    offset=int(offset),
                )
            )  # fmt: skip
    return acks


async def measure(chosen: argparse.Namespace) -> dict[str, object]:
    scratch = Path(tempfile.mkdtemp(prefix="gantry-cost-", dir=chosen.dir))
    network = NoNetwork()
    try:
        config = BrokerConfig.of(
            store_path_root_dir=str(scratch), listen_port=0, bind_address="127.0.0.1", broker_name="broker-a",
            flush_disk_type="ASYNC_FLUSH", disk_space_warning_level_ratio=100, mapped_file_size_commit_log=64 << 20,
        )  # fmt: skip
        broker = Broker(config, network, SystemClock(), SystemRng(), OsDisk())
        await broker.start()
        peer = Peer(network, FORMS[chosen.form], chosen.size, None)
        reader = Reader(peer, FORMS[chosen.form], chosen.messages)
        if chosen.kind != "pop":
            await peer.plain(STORED)
            reader.begin_at(STORED // QUEUES)
        rounds: list[float] = []
        work = {"pull": reader.pull, "held": reader.held, "pop": reader.pop}[chosen.kind]
        await work(REQUESTS_PER_ROUND)
        for _ in range(chosen.rounds):
            peer.spent_s = 0.0
            done = await work(REQUESTS_PER_ROUND)
            rounds.append(peer.spent_s / done * 1e6)
        await broker.close()
        return {
            "kind": chosen.kind, "form": chosen.form, "messages": chosen.messages,
            "best_us": round(min(rounds), 2), "median_us": round(statistics.median(rounds), 2),
        }  # fmt: skip
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.consume_cost", description=__doc__)
    arguments.add_argument("--kind", choices=("pull", "held", "pop"), default="pull")
    arguments.add_argument("--form", choices=sorted(FORMS), default="json", help="form of the headers")
    arguments.add_argument("--messages", type=int, default=32, help="messages that one request asks for")
    arguments.add_argument("--size", type=int, default=128, help="bytes of a body")
    arguments.add_argument("--rounds", type=int, default=40, help=f"of {REQUESTS_PER_ROUND} requests each")
    arguments.add_argument("--dir", default="/dev/shm", help="where the store is made; memory, no disk is measured")
    chosen = arguments.parse_args()
    print(json.dumps(alone(measure(chosen))))


if __name__ == "__main__":
    main()
