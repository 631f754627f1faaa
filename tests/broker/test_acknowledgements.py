"""Every cell of the table of acknowledgements, on a broker with a second condition that confirms when the test says."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import gantrymq
from gantrymq.broker.acknowledgements import ACKNOWLEDGEMENTS, EFFECTS, Answer, Fate, RequestKind
from gantrymq.broker.delivery.delay import DelayedDelivery
from gantrymq.broker.delivery.delay_levels import park
from gantrymq.broker.delivery.timer import TimedDelivery
from gantrymq.broker.delivery.timer_rules import TimerRules, park_for
from gantrymq.message.message import Message
from gantrymq.message.system_topics import HALF
from gantrymq.protocol.batch import encode_batch
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.consumer import SendBack
from gantrymq.protocol.headers.send import RecallMessage, SendMessageAnswer
from gantrymq.protocol.headers.transaction import EndTransaction
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.simulation.world.disk import SimDisk
from gantrymq.store.message_store import MessageStore
from gantrymq.transactions.rules.states import State
from tests.broker.remoting.test_pop import ack, ask_pop, pop
from tests.broker.remoting.test_send_reply import REPLIES, reply
from tests.support.brokers import Cluster, on_broker, send_header, until
from tests.support.places import HOST, durable, record, run, small
from tests.support.safety import EVERYTHING, LateReplica
from tests.support.sim_clock import SimClock, settle

KEY = "UNIQ_KEY\x01C0000202\x02"
HALF_KEY = f"TRAN_MSG\x01true\x02PGROUP\x01PG\x02{KEY}"
DELAYS_MS = (1_000, 5_000)


@dataclass
class Stage:
    """A broker, its disk, and a replica that the test controls."""

    c: Cluster
    disk: SimDisk
    replica: LateReplica

    @property
    def safe(self) -> int:
        return self.c.broker.store.max_log_offset

    async def stored(self, before: int) -> None:
        """Wait until something is on this broker's disk and nothing is under way."""
        store = self.c.broker.store
        await until(lambda: store.appended > before and store.flushed == store.appended)
        for _ in range(5):
            await asyncio.sleep(0)


Act = Callable[[Cluster], Awaitable[Command]]


async def message(c: Cluster) -> Act:
    return lambda c: c.send("T", b"x", KEY)


async def unwaited(c: Cluster) -> Act:
    return lambda c: c.send("T", b"x", KEY + "WAIT\x01false\x02")


async def batch(c: Cluster) -> Act:
    body = encode_batch([Message("T", b"one"), Message("T", b"two")])
    return lambda c: c.ask(RequestCode.SEND_BATCH_MESSAGE, send_header("T", KEY, batch=True), body)


async def half(c: Cluster) -> Act:
    return lambda c: c.send("T", b"x", HALF_KEY, sys_flag=4)


def end_of(sent: SendMessageAnswer, resolution: int = 8) -> EndTransaction:
    return EndTransaction(
        producer_group="PG", tran_state_table_offset=sent.queue_offset,
        commit_log_offset=parse_offset_message_id(sent.msg_id)[1], commit_or_rollback=resolution,
        from_transaction_check=False, msg_id="C0000202", transaction_id="C0000202",
    )  # fmt: skip


async def end(c: Cluster) -> Act:
    header = end_of(await c.sent("T", b"x", HALF_KEY, sys_flag=4))
    return lambda c: c.ask(RequestCode.END_TRANSACTION, header)


async def send_back(c: Cluster) -> Act:
    sent = await c.sent("T", b"x", KEY)
    header = SendBack(offset=parse_offset_message_id(sent.msg_id)[1], group="CG", delay_level=0, max_reconsume_times=16)
    return lambda c: c.ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)


async def recall(c: Cluster) -> Act:
    sent = await c.sent("T", b"x", f"{KEY}TIMER_DELAY_SEC\x0160\x02")
    assert sent.recall_handle is not None
    header = RecallMessage(topic="T", recall_handle=sent.recall_handle, producer_group="PG")
    return lambda c: c.ask(RequestCode.RECALL_MESSAGE, header)


async def pop_one(c: Cluster) -> Act:
    await c.sent("T", b"x", KEY)
    return lambda c: ask_pop(c, "T")


async def acknowledge(c: Cluster) -> Act:
    await c.sent("T", b"x", KEY)
    (got,) = await pop(c, "T")
    return lambda c: ack(c, "T", got)


async def reply_to(c: Cluster) -> Act:
    """To nobody, which is told once the reply is stored."""
    return lambda c: reply(c)


ACTS: dict[RequestKind, Callable[[Cluster], Awaitable[Act]]] = {
    RequestKind.MESSAGE: message,
    RequestKind.UNWAITED: unwaited,
    RequestKind.BATCH: batch,
    RequestKind.HALF: half,
    RequestKind.END: end,
    RequestKind.SEND_BACK: send_back,
    RequestKind.RECALL: recall,
    RequestKind.POP: pop_one,
    RequestKind.ACKNOWLEDGEMENT: acknowledge,
    RequestKind.REPLY: reply_to,
}
STATUSES = (ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT)


def meaning(kind: RequestKind, answer: Command) -> Answer:
    if kind is RequestKind.REPLY:  # its code says that there is no requester; what matters here is that it is answered
        return Answer.SUCCESS
    if answer.code == ResponseCode.SUCCESS:
        return Answer.SUCCESS
    if answer.code in STATUSES:
        sent = answer.header(SendMessageAnswer)
        assert (sent.queue_id, sent.queue_offset, sent.transaction_id) == (0, 0, "C0000202")
        return Answer.STATUS
    if answer.code == ResponseCode.SERVICE_NOT_AVAILABLE and "it counts once it is" in (answer.remark or ""):
        return Answer.UNAVAILABLE
    return Answer.REFUSED


def on_stage(work: Callable[[Stage], Awaitable[None]], replica: LateReplica | None = None, **settings: object) -> None:
    disk, double = SimDisk(), replica or LateReplica(position=EVERYTHING)

    async def begun(c: Cluster) -> None:
        await c.create_topic("T", 1)
        await c.create_topic(REPLIES, 1)
        await c.create_topic("Z", 1)
        await c.sent("Z")  # the log has its first file
        await work(Stage(c, disk, double))

    on_broker(begun, "/store", disk=disk, conditions=(double,), **settings)


@pytest.mark.parametrize("kind", list(ACTS))
@pytest.mark.parametrize("in_time", [True, False])
def test_a_kind_of_acknowledgement(kind: RequestKind, in_time: bool) -> None:
    rows = ACKNOWLEDGEMENTS[kind]

    async def work(s: Stage) -> None:
        act = await ACTS[kind](s.c)
        await until(lambda: s.c.broker.store.flushed == s.c.broker.store.appended)
        before = s.safe
        s.replica.hold(before)
        asked = asyncio.ensure_future(act(s.c))
        await s.stored(before)
        if kind is RequestKind.UNWAITED:
            assert meaning(kind, await asked) is rows[Fate.LATE]
        else:
            assert not asked.done()
        assert s.safe == before, "nothing is visible before it is safe"
        if not in_time:
            s.replica.go()
            if rows[Fate.LATE] is Answer.NOTHING:
                for _ in range(20):
                    await asyncio.sleep(0)
                assert not asked.done()
            else:
                assert meaning(kind, await asked) is rows[Fate.LATE]
            assert s.safe == before
            s.replica.come()
        s.replica.confirm(EVERYTHING)
        assert s.safe == s.c.broker.store.written > before
        if in_time or rows[Fate.LATE] is Answer.NOTHING:
            assert meaning(kind, await asked) is rows[Fate.SAFE if in_time else Fate.SAFE_LATER]

    on_stage(work, store_reply_message_enable=True, recall_message_enable=True)


@pytest.mark.parametrize("kind", list(ACTS))
def test_a_kind_of_acknowledgement_when_the_disk_fails(kind: RequestKind) -> None:
    rows = ACKNOWLEDGEMENTS[kind]

    async def work(s: Stage) -> None:
        act = await ACTS[kind](s.c)
        await until(lambda: s.c.broker.store.flushed == s.c.broker.store.appended)
        before = s.safe
        s.disk.fail_next_sync("commitlog")
        asked = asyncio.ensure_future(act(s.c))
        if rows[Fate.FAILED] is Answer.NOTHING:
            answer = await asked
            assert answer.code != ResponseCode.SUCCESS
        else:
            assert meaning(kind, await asked) is rows[Fate.FAILED]
        await until(lambda: s.c.broker.store.refusal is not None)
        assert s.safe == before

    on_stage(work, store_reply_message_enable=True, recall_message_enable=True)


def test_a_limit_passes() -> None:
    async def work(s: Stage) -> None:
        s.replica.hold(s.safe)
        answer = await s.c.send("T", b"x", KEY)
        assert answer.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
        assert meaning(RequestKind.MESSAGE, answer) is Answer.STATUS
        assert s.c.broker.store.queue_range("T", 0) == (0, 0)

    on_stage(work, LateReplica(limit_ms=1, position=EVERYTHING))


@pytest.mark.parametrize("resolution", [8, 12])
def test_a_half_that_is_late_is_an_open_transaction_later_and_can_be_ended_at_once(resolution: int) -> None:
    async def work(s: Stage) -> None:
        table = s.c.broker.coordinator.table
        s.replica.hold(s.safe)
        s.replica.go()
        answer = await s.c.send("T", b"x", HALF_KEY, sys_flag=4)
        assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert [found.state for found in table] == [State.UNCONFIRMED]
        assert s.c.broker.store.queue_range(HALF, 0) == (0, 0)
        again = await s.c.send("T", b"x", HALF_KEY, sys_flag=4)  # a retry joins it
        assert (again.code, len(table)) == (ResponseCode.SLAVE_NOT_AVAILABLE, 1)
        header = end_of(answer.header(SendMessageAnswer), resolution)
        for _ in range(2):  # the same again while it is late
            ended = await s.c.ask(RequestCode.END_TRANSACTION, header)
            assert meaning(RequestKind.END, ended) is Answer.UNAVAILABLE
        assert len(table) == 1
        s.replica.confirm(EVERYTHING)
        assert len(table) == 0 and s.c.broker.coordinator.counts.halves == 1
        assert s.c.broker.store.queue_range("T", 0) == (0, 1 if resolution == 8 else 0)
        assert (await s.c.ask(RequestCode.END_TRANSACTION, header)).code == ResponseCode.SUCCESS
        other = end_of(answer.header(SendMessageAnswer), 20 - resolution)
        assert (await s.c.ask(RequestCode.END_TRANSACTION, other)).code == ResponseCode.ILLEGAL_OPERATION

    on_stage(work)


def test_a_half_that_is_late_and_not_ended_is_open_when_it_is_safe() -> None:
    async def work(s: Stage) -> None:
        table = s.c.broker.coordinator.table
        s.replica.hold(s.safe)
        s.replica.go()
        answer = await s.c.send("T", b"x", HALF_KEY, sys_flag=4)
        (found,) = table
        assert found.state is State.UNCONFIRMED and found.due < 0
        s.replica.confirm(EVERYTHING)
        assert found.state is State.OPEN and found.due >= 0, "it will be asked about"
        header = end_of(answer.header(SendMessageAnswer))
        assert (await s.c.ask(RequestCode.END_TRANSACTION, header)).code == ResponseCode.SUCCESS

    on_stage(work)


@pytest.mark.parametrize("timer", [False, True])
def test_a_delivery_by_the_broker_waits_until_it_is_safe(timer: bool) -> None:
    async def work() -> None:
        disk, clock, replica = SimDisk(), SimClock(), LateReplica(limit_ms=10, position=EVERYTHING)
        config = small(
            "/store",
            mapped_file_size_commit_log=1 << 18,
            mapped_file_size_consume_queue=20_000,
            message_delay_level="1s 5s",
        )
        store = MessageStore.open(config, disk, clock, HOST, conditions=(replica,))
        disk.make_dirs("/store/config")
        rules = TimerRules(1000, 10**9, 10**8)
        delivery: DelayedDelivery | TimedDelivery
        if timer:
            delivery = TimedDelivery(store, clock, disk, rules, 1040)
            parked = park_for(record("T", 1, b"x"), clock.wall_ms() + 1_000)
        else:
            delivery = DelayedDelivery(store, clock, disk, "/store/config/delayOffset.json", DELAYS_MS)
            parked = park(record("T", 1, b"x"), 1, DELAYS_MS, clock.wall_ms())
        delivery.start()
        assert await durable(store, store.append([parked])) is None
        replica.hold(store.written)
        before = store.written
        await clock.advance(30)
        assert store.flushed > before and store.queue_range("T", 1) == (0, 0)
        written = store.written
        await clock.advance(30)
        assert store.written == written, "it is not delivered again"
        replica.confirm(EVERYTHING)
        await settle()
        assert store.queue_range("T", 1) == (0, 1)
        if isinstance(delivery, TimedDelivery):
            await delivery.stop()
        delivery.close()
        await store.close()

    run(work())


def test_the_table_is_whole_and_the_docstring_shows_it() -> None:
    source = Path(gantrymq.__file__).parent / "broker" / "acknowledgements.py"
    shown = ast.get_docstring(ast.parse(source.read_text())) or ""  # a compiled module has no docstring
    assert set(ACTS) | {RequestKind.MOVE} == set(RequestKind) == set(ACKNOWLEDGEMENTS) == set(EFFECTS)
    rows = {}
    for line in shown.splitlines():
        if line.startswith("| ") and "SAFE" not in line:
            kind, *answers = (word.strip() for word in line.strip("|").split("|"))
            rows[kind] = answers
    assert rows == {kind.name: [rows[fate].name for fate in Fate] for kind, rows in ACKNOWLEDGEMENTS.items()}
