"""``python -m benchmarks.broker_cost``: the processor time that a broker's thread needs for one message, without
sockets.

A broker runs in this process without a network: it gets requests as bytes, as if one read had returned ``--batch``
frames, and its answers are collected. Only the processor time of the broker is counted (``thread_time``), including
housekeeping and indexing until its orderly end. Making the requests is not counted. To compare two versions, run both
in turns (``PYTHONPATH`` chooses the version), because the speed of a machine changes by a factor of two.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import shutil
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.alone import alone
from benchmarks.no_network import NoNetwork, Wire
from gantrymq.access.values import Action, Policy, PolicyDecision, Resource, User
from gantrymq.broker.broker import Broker
from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.replication.copies import Copies
from gantrymq.message.message import Message
from gantrymq.message.transaction import HalfEnd
from gantrymq.protocol.batch import encode_batch
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import SerializeType, decode_command, encode_request
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.halves import decode_codes, decode_places, encode_ends
from gantrymq.protocol.headers.pull import QueryMessage
from gantrymq.protocol.headers.send import SendMessage
from gantrymq.protocol.headers.transaction import EndHalves, EndTransaction
from gantrymq.protocol.signature import Account, signed_frame
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.disk import OsDisk
from gantrymq.runtime.rng import SystemRng

ROUND = 512
"""Messages in a round. The best round shows what the program can do, and the mean what it did in this run."""
COMMIT = 8
HELD_OPEN = 50_000
"""Of the kind "halves": half messages that are open before the oldest are committed, as in a batch of Spark: so their
records are no longer in memory."""
FORMS = {"binary": SerializeType.ROCKETMQ, "json": SerializeType.JSON}
TOPIC = "T"
FIRST_USER = '{"username":"admin","password":"admin-secret"}'
HEARTBEAT = b'{"clientID":"127.0.0.1@bench","producerDataSet":[{"groupName":"PG"}],"consumerDataSet":[]}'
PROPERTIES = "KEYS\x01k{0}\x02UNIQ_KEY\x017F0000016D98E784C4C96794C4{0:06d}\x02WAIT\x01true\x02TAGS\x01TagA\x02"
COMMON = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x013600\x02WAIT\x01true\x02"
HALF_PROPERTIES = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02"


class Peer:
    """The client: makes requests, and counts the processor time that the broker needs for them."""

    def __init__(
        self, network: NoNetwork, form: SerializeType, body_bytes: int, profile: cProfile.Profile | None,
        account: Account | None = None, confirm: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """``account``: signs every request, which is not counted either. ``confirm``: the replica has everything."""
        self._confirm = confirm
        self._wire = wire = Wire()
        self._form = form
        self._body = b"x" * body_bytes
        self._profile = profile
        self._account = account
        self._session = network.accept()
        self._session.connected(wire)
        self._number = 0
        self.open: deque[list[HalfEnd]] = deque()
        self.spent_s = 0.0

    def sends(self, count: int, *, half: bool) -> bytes:
        """Requests that send messages with the properties of a Java client."""
        frames = []
        for _ in range(count):
            self._number += 1
            text = (HALF_PROPERTIES if half else "") + PROPERTIES.format(self._number)
            header = SendMessage(
                producer_group="PG", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4,
                queue_id=self._number % 4, sys_flag=4 if half else 0, born_timestamp=1_763_700_000_000 + self._number,
                flag=0, properties=text, reconsume_times=0, unit_mode=False, batch=False, bname="broker-a",
            )  # fmt: skip
            frames.append(
                encode_request(RequestCode.SEND_MESSAGE_V2, self._number, header, self._body, serialize=self._form)
            )
        return b"".join(frames)

    def ends(self, answers: bytes, *, one_way: bool) -> bytes:
        """A commit for every half message that was answered."""
        frames = []
        for form, head, body in FrameSplitter().feed(answers):
            answer = decode_command(form, head, body)
            assert answer.code == 0, answer.remark
            found = answer.ext_fields()
            header = EndTransaction(
                producer_group="PG", tran_state_table_offset=int(found["queueOffset"]),
                commit_log_offset=int(found["msgId"][-16:], 16), commit_or_rollback=COMMIT,
                from_transaction_check=False, msg_id=found["transactionId"], transaction_id=found["transactionId"],
                topic=TOPIC, bname="broker-a",
            )  # fmt: skip
            frames.append(
                encode_request(
                    RequestCode.END_TRANSACTION, answer.opaque, header, one_way=one_way, serialize=self._form
                )
            )
        return b"".join(frames)

    def many(self, count: int, code: RequestCode) -> tuple[bytes, list[str]]:
        """A request with many messages as the sink of Spark makes it, and the ids of the messages."""
        first, self._number = self._number, self._number + count
        keys = [f"0123456789ABCDEF00000001FEDCBA9876543210{number:08X}" for number in range(first, first + count)]
        is_half = code == RequestCode.SEND_HALVES
        messages = [Message(TOPIC, self._body) for _ in keys]
        for message, key in zip(messages, keys, strict=True):
            message.properties.clear()
            message.properties.update({"UNIQ_KEY": key} if is_half else {"UNIQ_KEY": key, "WAIT": "true"})
        header = SendMessage(
            producer_group="PG", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4, queue_id=1,
            sys_flag=4 if is_half else 0, born_timestamp=1_763_700_000_000, flag=0,
            properties=COMMON if is_half else "WAIT\x01true\x02", reconsume_times=0, unit_mode=False, batch=True,
            bname="broker-a",
        )  # fmt: skip
        return encode_request(code, first + 1, header, encode_batch(messages)), keys

    async def batch(self, count: int) -> None:
        """One batch of ordinary messages."""
        await self.ask(self.many(count, RequestCode.SEND_BATCH_MESSAGE)[0], 1)

    async def halves(self, count: int) -> None:
        """Many half messages in one request, and the commits of earlier ones in another."""
        request, keys = self.many(count, RequestCode.SEND_HALVES)
        places = decode_places(_body(await self.ask(request, 1)))
        self.open.append([HalfEnd(*place, key) for place, key in zip(places, keys, strict=True)])
        if len(self.open) * count > HELD_OPEN:
            await self.commit_oldest()

    async def commit_oldest(self) -> None:
        """Commit the half messages of the oldest request."""
        ends = encode_ends(self.open.popleft())
        header = EndHalves(producer_group="PG", commit_or_rollback=COMMIT)
        codes = decode_codes(_body(await self.ask(encode_request(RequestCode.END_HALVES, 1, header, ends), 1)))
        assert not any(codes), codes

    async def ask(self, data: bytes, expected: int) -> bytes:
        """Pass ``data`` to the broker, and return its answers when there are ``expected`` of them."""
        if self._account is not None:
            data = b"".join(signed_frame(frame, self._account) for frame in _frames(data))
        out = self._wire.out
        splitter = FrameSplitter()
        answered = counted = turns = 0
        plain: list[bytes] = []
        data = self.to_broker(data)
        while True:
            started = time.thread_time()
            if self._profile is not None:
                self._profile.enable()
            if data:
                self._session.received(data)
            await asyncio.sleep(0)
            self._confirm()
            if self._profile is not None:
                self._profile.disable()
            self.spent_s += time.thread_time() - started
            data = b""
            arrived = [self.from_broker(part) for part in out[counted:]]
            plain += arrived
            answered += sum(len(splitter.feed(part)) for part in arrived)
            counted = len(out)
            turns += 1
            if answered >= expected and turns > 1:
                out.clear()
                return b"".join(plain)

    def to_broker(self, data: bytes) -> bytes:
        """What the broker is given of it; this is not counted."""
        return data

    def from_broker(self, data: bytes) -> bytes:
        """What of it is answers; this is not counted."""
        return data

    async def transactions(self, count: int, *, one_way: bool) -> None:
        answers = await self.ask(self.sends(count, half=True), count)
        await self.ask(self.ends(answers, one_way=one_way), 0 if one_way else count)

    async def plain(self, count: int) -> None:
        await self.ask(self.sends(count, half=False), count)


def _frames(data: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        end = position + 4 + int.from_bytes(data[position : position + 4], "big")
        yield data[position:end]
        position = end


def account_of(broker: Broker) -> Account | None:
    """A user that may do what is measured; None: the broker has no users."""
    if broker.guard is None:
        return None
    actions = frozenset({Action.PUB, Action.SUB, Action.CREATE})
    broker.guard.directory.create(User("bench", "bench-secret"), None)
    broker.guard.directory.grant("bench", [Policy(Resource.parse(f"Topic:{TOPIC}"), actions, PolicyDecision.ALLOW)])
    return Account("bench", "bench-secret")


def _body(answer: bytes) -> bytes:
    ((form, head, body),) = FrameSplitter().feed(answer)
    command = decode_command(form, head, body)
    assert command.code == 0, command.remark
    return bytes(command.body)


async def measure(chosen: argparse.Namespace, profile: cProfile.Profile | None) -> dict[str, object]:
    scratch = Path(tempfile.mkdtemp(prefix="gantry-cost-", dir=chosen.dir))
    network = NoNetwork()
    try:
        config = BrokerConfig.of(
            store_path_root_dir=str(scratch), listen_port=0, bind_address="127.0.0.1",
            flush_disk_type="ASYNC_FLUSH", disk_space_warning_level_ratio=100, mapped_file_size_commit_log=64 << 20,
            authentication_enabled=chosen.users != "none", authorization_enabled=chosen.users == "judged",
            init_authentication_user="" if chosen.users == "none" else FIRST_USER,
        )  # fmt: skip
        copies = Copies(1, 3_000) if chosen.copied else None
        conditions = () if copies is None else (copies,)
        broker = Broker(config, network, SystemClock(), SystemRng(), OsDisk(), conditions=conditions)
        await broker.start()

        def confirm() -> None:
            if copies is not None:
                copies.confirm("replica", broker.store.written)

        confirm()
        peer = Peer(network, FORMS[chosen.form], chosen.size, profile, account_of(broker), confirm)
        await peer.ask(encode_request(RequestCode.HEART_BEAT, 1, body=HEARTBEAT), 1)
        await peer.plain(4)
        rounds: list[float] = []
        # A query updates the index, so that every round includes its share of indexing.
        query = QueryMessage(topic=TOPIC, key="nobody", max_num=1, begin_timestamp=0, end_timestamp=1 << 60)
        question = encode_request(RequestCode.QUERY_MESSAGE, 1, query, serialize=FORMS[chosen.form])
        peer.spent_s = 0.0
        for _ in range(max(1, chosen.count // ROUND)):
            before = peer.spent_s
            for _ in range(ROUND // chosen.batch):
                if chosen.kind == "transaction":
                    await peer.transactions(chosen.batch, one_way=chosen.one_way)
                else:
                    await getattr(peer, chosen.kind)(chosen.batch)
            await peer.ask(question, 1)
            rounds.append((peer.spent_s - before) / (ROUND // chosen.batch * chosen.batch) * 1e6)
        while peer.open:
            await peer.commit_oldest()
        total = len(rounds) * (ROUND // chosen.batch * chosen.batch)
        started = time.thread_time()
        await broker.close()  # includes the rest of the indexing
        spent = peer.spent_s + time.thread_time() - started
        return {
            "kind": chosen.kind, "form": chosen.form, "users": chosen.users, "best_us": round(min(rounds), 1),
            "median_us": round(statistics.median(rounds), 1), "all_us": round(spent / total * 1e6, 1),
        }  # fmt: skip
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def measured(words: Sequence[str]) -> dict[str, object]:
    """The result for these words of the command line."""
    chosen = _parser().parse_args(words)
    return alone(measure(chosen, None))


def main() -> None:
    chosen = _parser().parse_args()
    profile = cProfile.Profile() if chosen.profile else None
    print(json.dumps(alone(measure(chosen, profile))))
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(chosen.profile)


def _parser() -> argparse.ArgumentParser:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.broker_cost", description=__doc__)
    arguments.add_argument("--kind", choices=("transaction", "plain", "batch", "halves"), default="transaction")
    arguments.add_argument("--form", choices=("binary", "json"), default="binary", help="form of the headers")
    arguments.add_argument(
        "--users",
        choices=("none", "signed", "judged"),
        default="none",
        help="are requests signed, and do policies count?",
    )
    arguments.add_argument("--copied", action="store_true", help="answers wait for a replica, which confirms each turn")
    arguments.add_argument("--one-way", action="store_true", help="ends without answers, as Java's producer sends them")
    arguments.add_argument(
        "--batch", type=int, default=32, help="frames that one read brings; of batch and halves: messages in a request"
    )
    arguments.add_argument("--size", type=int, default=128, help="bytes of a body")
    arguments.add_argument("--count", type=int, default=20_000, help="messages")
    arguments.add_argument("--dir", default="/dev/shm", help="where the store is made; memory, no disk is measured")
    arguments.add_argument("--profile", type=int, default=0, help="show so many functions, most own time first")
    return arguments


if __name__ == "__main__":
    main()
