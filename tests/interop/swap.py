"""What a store must keep when it moves from one broker to another.

One SwapStory belongs to one store directory. Each broker in turn must ``write`` one chapter, and is then stopped or
killed. Then the test checks that the next broker has everything of all chapters.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gantrymq import Admin, LocalTransactionState, Message, MessageQueue, Producer, PullConsumer, TransactionProducer
from gantrymq.admin import Admin as AsyncAdmin
from gantrymq.aio import TransactionProducer as AsyncTransactionProducer
from gantrymq.broker.registries.json_file import read_json
from gantrymq.client.results import PullStatus, SendResult
from gantrymq.errors import ConfigError
from gantrymq.message.message import MessageView
from gantrymq.message.transaction import HalfEnd, Resolution
from gantrymq.protocol.batch import encode_batch
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import encode_request
from gantrymq.protocol.halves import decode_places, encode_ends
from gantrymq.protocol.headers.pull import QueryMessage, ViewMessage
from gantrymq.protocol.headers.send import SendMessage
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.protocol.stored_message import decode_record, to_view
from gantrymq.runtime.disk import OsDisk
from gantrymq.spark.sink.requests import ask_until_answered, end_halves
from tests.interop.apache import OPS_AT_ONCE
from tests.interop.ours import GantryCluster
from tests.interop.places import ask
from tests.interop.process import poll

QUEUES = 3
LEVELS = "1s 15s 2h"
"""Delivered at once; delivered by the next broker; never delivered here."""
CONF = {
    "messageDelayLevel": LEVELS, "transactionTimeOut": "2000", "transactionCheckInterval": "1000",
    "transactionCheckMax": "1000",
    "flushConsumerOffsetInterval": "300", "flushDelayOffsetInterval": "300", "recallMessageEnable": "true",
    "mappedFileSizeTimerLog": "52000", **OPS_AT_ONCE,
}  # fmt: skip
"""Apache's 5.x brokers keep op records in memory for 3 s, in which a half that was ended can be checked and delivered
again; here they are to be written before the next check. With 15 checks, one a second, a slow machine would park the
halves that the next broker shall find open."""
NEVER = ("level 3", "timer far", "withdrawn")
"""In the bodies of messages that must not be seen: their time is hours away, or they were withdrawn."""
WITHDRAWN_MS = 60_000
"""Until withdrawn messages would come; the next broker has to be there by then."""
LARGE = 6000
"""Bytes of a body that our producer compresses."""
TOPIC, PAID, GROUP, PAYERS = "Swap", "SwapPaid", "swap-readers", "swap-payers"
PATIENT: dict[str, Any] = {"send_timeout_ms": 20_000}


@dataclass
class Coordinator:
    """The listener of all transaction producers: ends and checks as the body of a message says."""

    answers: bool = False
    """Whether checks are answered as they will end, or (the local transaction still runs) UNKNOWN."""
    checked: Counter[str] = field(default_factory=Counter)

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        kind = message.body.decode().split()[1]
        return {"commit": LocalTransactionState.COMMIT, "rollback": LocalTransactionState.ROLLBACK}.get(
            kind, LocalTransactionState.UNKNOWN
        )

    def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        body = message.body.decode()
        self.checked[body] += 1
        if not self.answers:
            return LocalTransactionState.UNKNOWN
        return LocalTransactionState.COMMIT if "commit" in body else LocalTransactionState.ROLLBACK


@dataclass(frozen=True)
class Written:
    """A message that has to stay where it is."""

    message: Message
    queue: MessageQueue
    offset: int
    message_id: str
    offset_message_id: str


def offset_table(store: Path, name: str) -> dict[Any, Any]:
    """Of a file that a running broker writes. Apache's brokers take it away before they write it again, so that it is
    missing for a moment, or not whole."""
    try:
        content = read_json(OsDisk(), str(store / "config" / name))
    except (FileNotFoundError, ConfigError):
        return {}
    return (content or {}).get("offsetTable") or {}


class SwapScenario:
    """What was written to one store directory until now."""

    def __init__(self, store: Path, *, timers: bool, recalls: bool) -> None:
        """``timers``: whether both brokers know timer messages. ``recalls``: withdraw some; takes a minute."""
        self.recalls = recalls
        self.store = store
        self.timers = timers
        self.handles: list[str] = []
        """Of timer messages that the next broker is asked to forget."""
        self.timed_at = 0
        self.withdrawn_due: list[int] = []
        """When the withdrawn messages of each chapter would have come."""
        self.placed: list[Written] = []
        """Ordinary messages with their places."""
        self.delayed: list[str] = []
        """Bodies of messages that were delayed: each has to appear once."""
        self.visible: list[str] = []
        """Bodies of transactions that committed or will: each has to appear once in PAID, and no other."""
        self.left_open: list[str] = []
        """Bodies of halves that the last chapter left open."""
        self.lost_ends: list[str] = []
        """Bodies of transactions that were rolled back by a broker which may have died before it wrote that down."""
        self.levels = 0
        """How many messages of level 1 were delivered."""
        self.committed = 0
        self.ends: dict[int, int] = {}
        """Of every queue of TOPIC, as the last writer left it."""

    # ---- a chapter

    def write(self, chapter: str, name_servers: str, *, forgets: bool) -> None:
        """Everything a broker can be given; ends with transactions in the air.

        ``forgets``: the writer is an Apache broker that will be killed. Those keep rollbacks, and the ends of commits,
        in memory for some seconds: such a rollback is asked about again; a commit is in the log and must not be.
        """
        self.lost_ends = [f"{chapter} rollback", f"{chapter} rollback 2"] if forgets else []
        with Admin(name_servers) as admin:
            if not self.placed:
                admin.create_topic(TOPIC, QUEUES)
                admin.create_topic(PAID, QUEUES, message_type="TRANSACTION")
        with Producer("swap-writers", name_servers=name_servers, **PATIENT) as producer:
            self._write_plain(chapter, producer)
        with PullConsumer(GROUP, name_servers=name_servers) as consumer:
            self.committed += 2
            consumer.commit(self.placed[-1].queue, self.committed)
            poll(lambda: consumer.committed(self.placed[-1].queue) == self.committed, "committed offset")
        coordinator = Coordinator()
        with _payers(name_servers, coordinator) as payers:
            self._write_transactions(chapter, name_servers, payers, coordinator)
        self.ends = {}
        with PullConsumer(name_servers=name_servers) as consumer:
            now = {f"{chapter} level 1"} | ({f"{chapter} timer now"} if self.timers else set())
            poll(lambda: now <= set(self._bodies(consumer, TOPIC)), "delayed messages")
            self.ends = {queue.queue_id: consumer.max_offset(queue) for queue in consumer.queues(TOPIC)}
        poll(self._progress_saved, "offsets in their files")
        if self.recalls:
            with Producer("swap-writers", name_servers=name_servers, **PATIENT) as producer:
                self._withdraw(chapter, producer)

    def _progress_saved(self) -> bool:
        """Whether the broker wrote down how far consumers and delays are, which it does from time to time."""
        offsets, delays = [offset_table(self.store, f"{name}Offset.json") for name in ("consumer", "delay")]
        delivered = {int(level): offset for level, offset in delays.items()}
        queue = self.placed[-1].queue.queue_id
        saved = {int(queue_id): offset for queue_id, offset in offsets.get(f"{TOPIC}@{GROUP}", {}).items()}
        if delivered.get(1) != self.levels or saved.get(queue) != self.committed:
            return False
        return not self.timers or _timer_check(self.store) > self.timed_at + 1_000

    def _write_plain(self, chapter: str, producer: Producer) -> None:
        queues = sorted(producer.queues(TOPIC), key=lambda queue: queue.queue_id)
        assert len(queues) == QUEUES
        for number in range(6):
            body = f"{chapter} plain {number}"
            message = Message(
                TOPIC, body, tags=f"Tag{number % 2}", keys=[f"{chapter}-key{number}", "all"], flag=number,
                properties={"chapter": chapter, "number": str(number), "text": "Größe 5 µm"},
            )  # fmt: skip
            self._place(message, producer.send(message, queues[number % QUEUES]))
        large = Message(TOPIC, f"{chapter} large " + "x" * LARGE, tags="Large", keys=f"{chapter}-large")
        self._place(large, producer.send(large, queues[1]))
        batch = [Message(TOPIC, f"{chapter} batch {n}", tags="Batch", keys=f"{chapter}-batch{n}") for n in range(3)]
        result = producer.send_batch(batch, queues[2])
        ids, places = result.message_id.split(","), result.offset_message_id.split(",")
        for number, message in enumerate(batch):
            offset = result.queue_offset + number
            self.placed.append(Written(message, result.queue, offset, ids[number], places[number]))
        for level in (1, 2, 3):
            producer.send(Message(TOPIC, f"{chapter} level {level}", delay_level=level), queues[0])
        self.delayed += [f"{chapter} level 1", f"{chapter} level 2"]
        self.levels += 1
        if self.timers:
            self._write_timers(chapter, producer, queues[0])

    def _write_timers(self, chapter: str, producer: Producer, queue: MessageQueue) -> None:
        """Some for now, some for the next broker, some for later."""
        times = {"timer now": 1_000, "timer soon": 15_000, "timer far": 3_600_000}
        for name, delay_ms in times.items():
            producer.send(Message(TOPIC, f"{chapter} {name}", delay_ms=delay_ms), queue)
        self.delayed += [f"{chapter} timer now", f"{chapter} timer soon"]
        self.timed_at = int(time.time() * 1000)

    def _withdraw(self, chapter: str, producer: Producer) -> None:
        """One message is withdrawn by this broker, and one will be by the next."""
        due = int(time.time() * 1000) + WITHDRAWN_MS
        sent = [producer.send(Message(TOPIC, f"{chapter} withdrawn {n}", deliver_at_ms=due)) for n in range(2)]
        first, second = [result.recall_handle for result in sent]
        assert first and second, "the answer to a timer message names its handle"
        assert producer.recall(TOPIC, first) == sent[0].message_id
        self.handles = [second]
        self.withdrawn_due.append(due)

    def _place(self, message: Message, result: SendResult) -> None:
        self.placed.append(
            Written(message, result.queue, result.queue_offset, result.message_id, result.offset_message_id)
        )

    def _write_transactions(
        self, chapter: str, name_servers: str, payers: TransactionProducer, coordinator: Coordinator
    ) -> None:
        for kind in ("commit", "rollback", "checked-commit", "checked-rollback"):
            _pay(payers, f"{chapter} {kind}")
        poll(
            lambda: {f"{chapter} checked-commit", f"{chapter} checked-rollback"} <= coordinator.checked.keys(),
            "checks of the open transactions",
        )
        for kind in ("open-commit", "open-rollback", "commit 2", "rollback 2"):
            _pay(payers, f"{chapter} {kind}")
        if GantryCluster.kind in chapter:
            # Its op message says who decided and why where only we look; for Apache it settles as any other.
            asyncio.run(_decide(name_servers, _pay(payers, f"{chapter} operated-commit"), Resolution.COMMIT))
            asyncio.run(_decide(name_servers, _pay(payers, f"{chapter} operated-rollback"), Resolution.ROLLBACK))
            self.visible.append(f"{chapter} operated-commit")
            if self.timers:  # 4.x brokers cannot read the op message that these share
                together = [f"{chapter} together {number}" for number in range(3)]
                payers._call(_pay_together, payers._client, together)
                self.visible += together
        self.visible += [f"{chapter} {kind}" for kind in ("commit", "checked-commit", "open-commit", "commit 2")]
        self.left_open = [f"{chapter} {a}-{b}" for a in ("checked", "open") for b in ("commit", "rollback")]

    # ---- the next broker

    def check(self, name_servers: str) -> None:
        """The broker has everything, ends what was open, and goes on behind what was there."""
        with Producer("swap-writers", name_servers=name_servers, **PATIENT) as producer:
            for handle in self.handles:
                producer.recall(TOPIC, handle)
        with PullConsumer(GROUP, name_servers=name_servers) as consumer:
            self._check_messages(consumer)
            queue = self.placed[-1].queue
            assert consumer.committed(queue) == self.committed
            for queue in consumer.queues(TOPIC):
                assert consumer.max_offset(queue) >= self.ends[queue.queue_id]
        self._check_queries(name_servers)
        self._check_transactions(name_servers)
        with PullConsumer(name_servers=name_servers) as consumer:
            poll(lambda: set(self.delayed) <= set(self._bodies(consumer, TOPIC)), "delayed messages")
            bodies = Counter(self._bodies(consumer, TOPIC))
            again = {body: bodies[body] for body in self.delayed if bodies[body] != 1}
            assert not again, f"how often they came: {again}"
            early = [body for body in bodies if any(word in body for word in NEVER)]
            assert not early, f"nobody may see {early}"
            self.ends = {queue.queue_id: consumer.max_offset(queue) for queue in consumer.queues(TOPIC)}
        with Producer("swap-writers", name_servers=name_servers, **PATIENT) as producer:
            for queue in producer.queues(TOPIC):
                message = Message(TOPIC, f"one more for {queue.queue_id}", keys="more")
                result = producer.send(message, queue)
                assert result.queue_offset == self.ends[queue.queue_id]
                self._place(message, result)

    def check_withdrawn(self, name_servers: str) -> None:
        """Wait until the first two chapters' withdrawn messages would have come, and see that they did not."""
        for due in self.withdrawn_due[:2]:
            poll(lambda due=due: time.time() * 1000 > due + 2_000, "the time of the withdrawn messages")
        with PullConsumer(name_servers=name_servers) as consumer:
            assert not [body for body in self._bodies(consumer, TOPIC) if "withdrawn" in body]

    def _check_messages(self, consumer: PullConsumer) -> None:
        found = {(m.queue.queue_id, m.queue_offset): m for m in self._messages(consumer, TOPIC)}
        for written in self.placed:
            view = found[written.queue.queue_id, written.offset]
            message = written.message
            assert (view.body, view.flag, view.tags) == (message.body, message.flag, message.tags)
            lost = message.properties.items() - {("WAIT", "true")} - view.properties.items()
            assert not lost, (message, view)
            assert view.message_id == written.message_id

    def _check_topics(self, address: str) -> None:
        """Queues and attributes; a broker 4.x knows no attributes, and so forgets them."""
        table = msgspec.json.decode(ask(address, RequestCode.GET_ALL_TOPIC_CONFIG).body)["topicConfigTable"]
        for topic, wanted in ((TOPIC, {}), (PAID, {"message.type": "TRANSACTION"})):
            found = table[topic]
            assert (found["readQueueNums"], found["writeQueueNums"], found["perm"]) == (QUEUES, QUEUES, 6)
            if self.timers:
                assert found.get("attributes", {}) == wanted

    def _check_queries(self, name_servers: str) -> None:
        with Admin(name_servers) as admin:
            address = admin.route(TOPIC).broker_datas[0].master
        assert address is not None
        self._check_topics(address)
        for written in self.placed:
            _, log_offset = parse_offset_message_id(written.offset_message_id)
            answer = ask(address, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(offset=log_offset))
            assert (answer.code, decode_record(answer.body).queue_offset) == (ResponseCode.SUCCESS, written.offset)
            for key in [*written.message.keys, written.message_id]:
                if key not in ("all", "more"):
                    poll(lambda key=key, written=written: _finds(address, key, written), f"message of key {key}", 20)

    def _check_transactions(self, name_servers: str) -> None:
        coordinator = Coordinator(answers=True)
        with _payers(name_servers, coordinator), PullConsumer(name_servers=name_servers) as consumer:
            poll(lambda: set(self.left_open) <= coordinator.checked.keys(), f"checks of {self.left_open}")
            poll(lambda: set(self.visible) <= set(self._bodies(consumer, PAID)), "committed messages")
            found = sorted(self._bodies(consumer, PAID))
            assert found == sorted(self.visible), f"{found} and not {sorted(self.visible)}"
            ended = [body for body in coordinator.checked if body not in self.left_open + self.lost_ends]
            assert not ended, f"{ended} were over and have been checked"

    def _messages(self, consumer: PullConsumer, topic: str) -> Iterator[MessageView]:
        for queue in consumer.queues(topic):
            offset: int = consumer.min_offset(queue)
            while True:
                result = consumer.pull(queue, offset, 100)
                if result.status is PullStatus.NO_NEW_MSG or result.status is PullStatus.OFFSET_ILLEGAL:
                    break
                yield from result.messages
                offset = result.next_offset

    def _bodies(self, consumer: PullConsumer, topic: str) -> list[str]:
        return [message.body.decode() for message in self._messages(consumer, topic)]


@contextmanager
def _payers(name_servers: str, coordinator: Coordinator) -> Iterator[TransactionProducer]:
    producer = TransactionProducer(
        PAYERS, name_servers=name_servers, listener=coordinator, topics=(PAID,), heartbeat_interval_ms=1000, **PATIENT
    )
    with producer:
        yield producer


async def _decide(name_servers: str, transaction: str, resolution: Resolution) -> None:
    """As ``gantry transactions commit`` and ``rollback`` do."""
    async with AsyncAdmin(name_servers) as admin:
        (place,) = await admin.transactions.find(transaction)
        await admin.transactions.end(place, resolution, "ann@coordinator: ticket 7")


async def _pay_together(payers: AsyncTransactionProducer, bodies: list[str]) -> None:
    """As the sink of Spark does: one request with half messages, and one that commits them."""
    keys = [f"{time.time_ns():032X}" for _ in bodies]
    parts = [Message(PAID, body, keys=body.replace(" ", "-")) for body in bodies]
    for part, key in zip(parts, keys, strict=True):
        part.properties["UNIQ_KEY"] = key
    common = f"TRAN_MSG\x01true\x02PGROUP\x01{PAYERS}\x02WAIT\x01true\x02"

    def frame(queue: MessageQueue, opaque: int) -> bytes:
        header = SendMessage(
            producer_group=PAYERS, topic=PAID, default_topic="TBW102", default_topic_queue_nums=4,
            queue_id=queue.queue_id, sys_flag=4, born_timestamp=int(time.time() * 1000), flag=0, properties=common,
            reconsume_times=0, unit_mode=False, batch=True,
        )  # fmt: skip
        return encode_request(RequestCode.SEND_HALVES, opaque, header, encode_batch(parts))

    queue, answer = await ask_until_answered(payers, PAID, lambda found: found.queues[0], frame, 20_000, stay=True)
    ends = [HalfEnd(*place, key) for place, key in zip(decode_places(answer.body), keys, strict=True)]
    codes = await end_halves(payers, PAYERS, PAID, queue.broker_name, encode_ends(ends), Resolution.COMMIT)
    assert not any(codes), codes


def _pay(payers: TransactionProducer, body: str) -> str:
    """Send a transaction; its id."""
    result = payers.send_in_transaction(Message(PAID, body, keys=body.replace(" ", "-")))
    assert result.decided == (result.state is not LocalTransactionState.UNKNOWN), result
    return result.message_id


def _timer_check(store: Path) -> int:
    """Until when, in ms, timer messages are delivered for sure."""
    return int.from_bytes((store / "config" / "timercheck").read_bytes()[:8], "big")


def _finds(address: str, key: str, written: Written) -> bool:
    header = QueryMessage(
        topic=TOPIC, key=key, max_num=32, begin_timestamp=0, end_timestamp=int(time.time() * 1000) + 60_000,
        unique_key_query=True if key == written.message_id else None,
        index_type="U" if key == written.message_id else "K",
    )  # fmt: skip
    answer = ask(address, RequestCode.QUERY_MESSAGE, header)
    if answer.code != ResponseCode.SUCCESS:
        return False
    views, at = [], 0
    while at < len(answer.body):
        record = decode_record(answer.body, at)
        views.append(to_view(record, ""))
        at += record.size
    return any(view.body == written.message.body and view.queue_offset == written.offset for view in views)
