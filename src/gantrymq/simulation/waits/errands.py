"""Each kind of thing that waits in a broker: how a wait begins, and how its end is seen.

Where it can be, the end is what the broker itself writes into a topic. So how long a client takes to come back after
a restart is no part of a wait. The other ends are answers; what a client needs for them is in ``slack_ms``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from gantrymq.broker.broker import Broker
from gantrymq.broker.pop.revive_log import GRACE_MS
from gantrymq.broker.registries.queue_locks import LOCK_SECONDS
from gantrymq.client.producer import Producer
from gantrymq.client.transaction_producer import TransactionProducer
from gantrymq.errors import GantryError
from gantrymq.message.message import Message, MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.message.system_topics import pop_retry_topic, retry_topic
from gantrymq.message.transaction import LocalTransactionState
from gantrymq.protocol.bodies.locks import LockBatch, LockBatchAnswer
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, Header
from gantrymq.protocol.headers.consumer import SendBack
from gantrymq.protocol.headers.pop import PopMessage
from gantrymq.protocol.headers.pull import PullMessage
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.protocol.stored_message import scan
from gantrymq.runtime.addresses import address_of
from gantrymq.simulation.workload import IMMUNITY_MS
from gantrymq.simulation.world.cluster import BROKER_PORT, BrokerHost, Cluster
from gantrymq.store.message_store import MessageStore
from gantrymq.testing.local.node import NodeClock

LEVELS_MS: Final = (1_000, 5_000, 10_000, 30_000)
"""The first delay levels of a broker."""
TRY_AGAIN_S: Final = 0.3
LOOK_S: Final = 0.1
SHARED: Final = frozenset({"Delayed", "Timed"})
"""Topics with more than one message."""
SLACK_MS: Final = 700
"""A look of the timer that follows the step of a clock, one sync, and ``LOOK_S``."""
TIMER_SLACK_MS: Final = 2_000 + SLACK_MS
"""A slot of the timer is a second, and behind a restart it may begin a second anew."""
ANSWER_SLACK_MS: Final = 3_000
"""Until a client that asks for it has a connection again."""
LONG_MS: Final = 60_000


@dataclass
class World:
    """Who waits, and on whom."""

    cluster: Cluster
    rng: random.Random
    clocks: list[NodeClock] = field(default_factory=list)
    """Of the machines of clients."""
    watched: set[str] = field(default_factory=lambda: set(SHARED))
    """Topics in which the arrival of a record ends the wait that its body names."""
    seen: dict[str, int] = field(default_factory=dict)
    """Topic to how many of its records are known."""
    running: Broker | None = None
    """The broker, from the end of its start to the beginning of its stop."""
    open: set[str] = field(default_factory=set)
    """Waits that are not over."""

    @property
    def host(self) -> BrokerHost:
        return self.cluster.brokers[0]

    def started(self, name: str, broker: Broker) -> None:
        """For ``Cluster.started``."""
        self.running = broker
        self.cluster.history.add("started", host=name)

    def begin(self, name: str, kind: str, ms: int, slack_ms: int, *, exact: bool = True, kept: bool = True) -> None:
        """``exact``: it may not be over before its time. ``kept``: also a restart does not end it."""
        self.open.add(name)
        self.cluster.history.add(
            "waits", wait=name, kind=kind, ms=ms, slack_ms=slack_ms, exact=exact, kept=kept, host=self.host.name
        )

    def over(self, name: str) -> None:
        self.open.discard(name)
        self.cluster.history.add("over", wait=name)

    async def look(self) -> None:
        """See what arrives, for as long as the run lasts."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self.running is not None:
                for topic in sorted(self.watched):
                    self._look_into(self.running.store, topic)

    def _look_into(self, store: MessageStore, topic: str) -> None:
        for offset in range(self.seen.get(topic, 0), store.queue_range(topic, 0)[1]):
            self.seen[topic] = offset + 1
            entry = store.entry(topic, 0, offset)
            message = None if entry is None else store.read(entry.log_offset)
            if message is not None:
                self.over(message.body.decode())
                if topic not in SHARED:
                    self.watched.discard(topic)


class Caller:
    """A client process that begins waits of every kind."""

    def __init__(self, world: World) -> None:
        self._world = world
        process = world.cluster.process("caller", "10.0.1.1")
        world.clocks.append(process.clock)
        self.node = process.node
        name_servers, outside = process.name_servers, process.outside
        self._plain = Producer("callers", name_servers=name_servers, outside=outside, default_topic_queue_nums=1)
        self._halves = TransactionProducer(
            "halves", listener=self, topics=["Halves"], heartbeat_interval_ms=1_000, inline_listener=True,
            name_servers=name_servers, outside=outside, default_topic_queue_nums=1,
        )  # fmt: skip
        self._checks: dict[str, int] = {}

    async def start(self) -> None:
        await self._plain.start()
        await self._halves.start()

    async def errand(self, number: int) -> None:
        """One wait, of a kind that chance decides."""
        kind = self._world.rng.choice(tuple(KINDS))
        while not await KINDS[kind](self, f"{kind.replace(' ', '-')}-{number}"):
            number += 10_000  # what became of that try is not known
            await asyncio.sleep(TRY_AGAIN_S)

    # ---- asking

    async def _ask(
        self, code: RequestCode, header: Header | None, body: bytes = b"", timeout_ms: int = 3_000
    ) -> Command | None:
        """The answer; None when there is none."""
        address = address_of(self._world.host.address, BROKER_PORT)
        try:
            return await self._plain._endpoint.call(address, code, header, body, timeout_ms=timeout_ms)
        except GantryError:
            return None

    async def _sent(self, message: Message) -> int | None:
        """The log offset of a message that is stored; None when that is not known."""
        try:
            result = await self._plain.send(message)
        except GantryError:
            return None
        return parse_offset_message_id(result.offset_message_id)[1]

    # ---- kinds of waits; each returns whether it began

    async def delayed(self, name: str) -> bool:
        level = self._world.rng.randrange(len(LEVELS_MS))
        if await self._sent(Message("Delayed", name, delay_level=level + 1)) is None:
            return False
        self._world.begin(name, "delay level", LEVELS_MS[level], SLACK_MS)
        return True

    async def timed(self, name: str) -> bool:
        """In so many seconds, or at a time by the broker's clock."""
        world, host = self._world, self._world.host
        ms, skew_ms = world.rng.randrange(2_000, 40_000), host.skew_ms
        at_a_time = world.rng.random() < 0.5 and host.clock is not None
        when = host.clock.wall_ms() + ms if at_a_time and host.clock is not None else 0
        message = Message("Timed", name, delay_ms=0 if at_a_time else ms, deliver_at_ms=when)
        if await self._sent(message) is None or skew_ms != host.skew_ms:
            return False
        world.begin(name, "timer", ms, TIMER_SLACK_MS, exact=not at_a_time)
        return True

    async def popped(self, name: str) -> bool:
        """Taken, and not acknowledged."""
        topic, group, ms = f"Popped-{name}", f"poppers-{name}", self._world.rng.randrange(2_000, 30_000)
        if await self._sent(Message(topic, name)) is None or await self._pop(topic, group, ms) != [name]:
            return False
        self._world.watched.add(pop_retry_topic(topic, group, v2=False))
        self._world.begin(name, "popped", ms, GRACE_MS + SLACK_MS)
        return True

    async def closed(self, name: str) -> bool:
        """A queue that is popped in order is closed until what was taken is acknowledged, or comes back."""
        topic, group, ms = f"Closed-{name}", f"in-order-{name}", self._world.rng.randrange(2_000, 30_000)
        if await self._sent(Message(topic, name)) is None or await self._pop(topic, group, ms, True) != [name]:
            return False
        self._world.begin(name, "closed queue", ms, ANSWER_SLACK_MS, kept=False)
        while await self._pop(topic, group, LONG_MS, True) != [name]:
            await asyncio.sleep(TRY_AGAIN_S)
        self._world.over(name)
        return True

    async def _pop(self, topic: str, group: str, invisible_ms: int, in_order: bool = False) -> list[str]:
        answer = await self._ask(RequestCode.POP_MESSAGE, PopMessage(
            consumer_group=group, topic=topic, queue_id=0, max_msg_nums=1, invisible_time=invisible_ms, poll_time=0,
            born_time=0, init_mode=1, exp_type="TAG", exp="*", order=in_order,
        ))  # fmt: skip
        return [] if answer is None else [message.body.decode() for message in scan(answer.body)]

    async def sent_back(self, name: str) -> bool:
        """What a consumer could not process."""
        group, level = f"failing-{name}", self._world.rng.randrange(len(LEVELS_MS))
        place = await self._sent(Message("Failed", name))
        if place is None:
            return False
        header = SendBack(offset=place, group=group, delay_level=level + 1, max_reconsume_times=16)
        answer = await self._ask(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        if answer is None or answer.code != ResponseCode.SUCCESS:
            return False
        self._world.watched.add(retry_topic(group))
        self._world.begin(name, "retry", LEVELS_MS[level], SLACK_MS)
        return True

    async def locked(self, name: str) -> bool:
        """A member that consumes in order is silent from now on; another one wants its queue."""
        if not await self._lock(name, "silent"):
            return False
        self._world.begin(name, "lock", int(LOCK_SECONDS * 1000), ANSWER_SLACK_MS, kept=False)
        while not await self._lock(name, "alive"):
            await asyncio.sleep(TRY_AGAIN_S)
        self._world.over(name)
        return True

    async def _lock(self, group: str, client_id: str) -> bool:
        body = LockBatch(client_id=client_id, consumer_group=group, mq_set=[
            MessageQueue("Locked", self._world.host.name, 0)
        ])  # fmt: skip
        answer = await self._ask(RequestCode.LOCK_BATCH_MQ, None, body.encode())
        return answer is not None and bool(LockBatchAnswer.decode(answer.body).lock_ok_mq_set)

    async def held(self, name: str) -> bool:
        """A pull that is held until something comes; nothing does."""
        topic, ms = f"Held-{name}", self._world.rng.randrange(2_000, 15_000)
        if await self._sent(Message(topic, name)) is None:
            return False
        self._world.begin(name, "held pull", ms, ANSWER_SLACK_MS, kept=False)
        await self._ask(RequestCode.PULL_MESSAGE, PullMessage(
            consumer_group=f"pullers-{name}", topic=topic, queue_id=0, queue_offset=1, max_msg_nums=1,
            sys_flag=2 | 4, commit_offset=0, suspend_timeout_millis=ms, sub_version=0, subscription="*",
            expression_type="TAG",
        ), timeout_ms=LONG_MS)  # fmt: skip
        self._world.over(name)
        return True

    async def undecided(self, name: str) -> bool:
        """A half message about which the broker asks when its immunity is over, and again when nobody knows."""
        message = Message("Halves", name)
        try:
            await self._halves.send_in_transaction(message)
        except GantryError:
            return False
        return name in self._checks

    async def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        self._wait_for_check(message.body.decode(), 0)
        return LocalTransactionState.UNKNOWN

    async def check_local_transaction(self, message: MessageView) -> LocalTransactionState:
        name = message.body.decode()
        count = self._checks.get(name, 0)
        self._world.over(f"{name}.{count}")
        if count >= CHECKS:
            self._checks.pop(name, None)
            return LocalTransactionState.COMMIT
        self._wait_for_check(name, count + 1)
        return LocalTransactionState.UNKNOWN

    def _wait_for_check(self, name: str, count: int) -> None:
        """Behind a start a half message is immune again, however often its producer was asked."""
        self._checks[name] = count
        self._world.begin(
            f"{name}.{count}", "next check" if count else "immunity", IMMUNITY_MS, ANSWER_SLACK_MS, exact=not count
        )


CHECKS: Final = 3
"""Questions about a half message that are answered UNKNOWN."""
KINDS: Final[dict[str, Callable[[Caller, str], Awaitable[bool]]]] = {
    "delay level": Caller.delayed,
    "timer": Caller.timed,
    "pop": Caller.popped,
    "pop in order": Caller.closed,
    "retry": Caller.sent_back,
    "lock": Caller.locked,
    "held pull": Caller.held,
    "check back": Caller.undecided,
}
