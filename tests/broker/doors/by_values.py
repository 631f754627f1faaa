"""Through the door for code in the same process: the operations themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import to_builtins

from gantrymq.broker.message_rights import told_to
from gantrymq.broker.operations.consumer_questions import ConsumeNow
from gantrymq.broker.operations.operations import Operations
from gantrymq.broker.operations.queries import KeyQuery
from gantrymq.broker.operations.reset import ResetOrder
from gantrymq.broker.operations.send_back import Returned
from gantrymq.broker.operations.table_changes import DeleteGroup, DeleteTopic, MakeGroups, MakeTopics
from gantrymq.broker.operations.topics import TopicOrder
from gantrymq.broker.pop.lite.subscriptions import LiteReader
from gantrymq.broker.pop.values import NotificationRequest, PopDelivery, PopRequest
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.submission import Submission
from gantrymq.broker.transactions.end_many import ManyEnds
from gantrymq.broker.transactions.pages import Wanted
from gantrymq.message import flags, properties
from gantrymq.message.heartbeat import ConsumerData, Heartbeat, ProducerData, SubscriptionData
from gantrymq.message.message import Message
from gantrymq.message.pop import AssignmentQuery, BatchAck, RequestMode
from gantrymq.message.queues import MessageQueue
from gantrymq.message.receipt_handle import ReceiptHandle, parse
from gantrymq.message.submission import BatchItem
from gantrymq.message.transaction import HalfEnd, LocalTransactionState
from gantrymq.protocol.files.groups import Group
from gantrymq.protocol.files.request_modes import GroupRequestMode
from gantrymq.protocol.stored_message import scan
from gantrymq.runtime.stepwise import gathered
from gantrymq.store.values import Boundary
from gantrymq.testing import LocalCluster
from gantrymq.testing.local.door import Half
from tests.broker.doors.asked import asks
from tests.broker.doors.who import SECONDS, Delivery, Who, on

Done = Callable[..., None]


class ByValues:
    """A producer, a consumer and an operator in one."""

    name = "in process"
    cannot: Final = {
        "routes.": "the broker asks for routes itself, to assign queues",
        "sending.back.dead_letter": "one is written with the end of a delivery: tests/broker/pop/test_dead_letters.py",
    }
    judged: Final = ("send", "half", "end", "end_by_id", "read", "explain")
    """What the door in this process judges. For the others operations are called here, without a door."""

    def __init__(self, cluster: LocalCluster, who: Who) -> None:
        self._cluster = cluster
        self._who = who
        self._door = cluster.door(who.group, check=lambda view: LocalTransactionState.UNKNOWN, user=who.user)
        if who.user is not None or cluster.broker.guard is None:
            self._door.__enter__()
        self._member = self._door._member

    # Sending.

    @asks("sending.one.send")
    def send(self, topic: str, body: bytes, **more: str) -> str | None:
        if not more:
            return self._door.send(Message(topic, body)).recall_handle
        message = self._submission(topic, **more)
        handle: str | None = self._later(
            lambda do, done: do.sending.one.send(self._member, message, body, done)
        ).recall_handle
        return handle

    @asks("sending.one.send")
    def half(self, topic: str, body: bytes) -> Half:
        return self._door.send_half(Message(topic, body))

    @asks("sending.batches.send")
    def send_batch(self, topic: str, bodies: Sequence[bytes]) -> int:
        items = [BatchItem(0, body, "") for body in bodies]
        size = sum(map(len, bodies))
        send = lambda do, done: do.sending.batches.send(self._member, self._submission(topic), size, items, done)  # noqa: E731
        return int(self._later(send).queue_offset)

    @asks("sending.halves.send")
    def halves(self, topic: str, bodies: Mapping[str, bytes]) -> list[Half]:
        marks = {properties.TRANSACTION_PREPARED: "true", properties.PRODUCER_GROUP: self._who.group}
        batch = self._submission(topic, sys_flag=flags.PREPARED, **marks)
        items = [BatchItem(0, body, properties.encode({"UNIQ_KEY": key})) for key, body in bodies.items()]
        send = lambda do, done: do.sending.halves.send(self._member, batch, 100, items, done)  # noqa: E731
        placed = self._later(send)
        return [Half(key, one.queue_offset, one.log_offset) for key, one in zip(bodies, placed, strict=True)]

    @asks("sending.back.send_back")
    def send_back(self, group: str, log_offset: int) -> None:
        self._later(
            lambda do, done: do.sending.back.send_back(self._member, Returned(group, log_offset, 0, None), done)
        )

    @asks("sending.replies.reply")
    def reply(self, topic: str, **marks: str) -> None:
        self._later(
            lambda do, done: do.sending.replies.reply(self._member, self._submission(topic, **marks), b"x", done)
        )

    @asks("sending.timers.recall")
    def recall(self, topic: str, handle: str) -> str:
        return str(self._later(lambda do, done: do.sending.timers.recall(self._member, topic, handle, "", done)))

    @asks("sending.timers.check_point", "sending.timers.waiting")
    def timers(self) -> tuple[int, dict[str, int]]:
        return self._now(lambda do: (len(do.sending.timers.check_point()), do.sending.timers.waiting().by_topic))

    # Transactions.

    @asks("transactions.ends.end")
    def end(self, half: Half, state: LocalTransactionState) -> None:
        self._door.end(half, state)

    @asks("transactions.ends_many.end")
    def end_halves(self, halves: Sequence[Half], state: LocalTransactionState) -> list[Refusal | None]:
        ends = [HalfEnd(half.queue_offset, half.log_offset, half.transaction_id) for half in halves]
        many = ManyEnds(self._who.group, ends, state.resolution)
        results = self._later(lambda do, done: do.transactions.ends_many.end(self._member, many, done))
        return [None if refused is None else refused.reason for refused in results]

    @asks("ends_by_id.find", "ends_by_id.end")
    def end_by_id(self, half: Half, state: LocalTransactionState) -> None:
        self._door.end_by_id(half.transaction_id, half.transaction_id, state)

    @asks("administration.resumes.resume")
    def resume(self, log_offset: int) -> None:
        self._later(lambda do, done: do.administration.resumes.resume(self._member, log_offset, None, done))

    @asks("administration.explaining.explanations.explain")
    def explain(self, transaction_id: str) -> list[dict[str, Any]]:
        return self._soon(lambda do: do.administration.explaining.explanations.explain(transaction_id, self._told(do)))

    @asks("administration.explaining.explanations.undecided")
    def undecided(self) -> list[str]:
        rows = self._soon(lambda do: do.administration.explaining.explanations.undecided(told=self._told(do)))
        return [row["id"] for row in rows]

    @asks("administration.explaining.explanations.checks")
    def checks(self, end: int) -> list[int]:
        return self._now(lambda do: list(do.administration.explaining.explanations.checks(range(end))))

    @asks("administration.explaining.explanations.pages.page", "administration.explaining.explanations.pages.summary")
    def listed(self) -> tuple[list[str], int]:
        page = self._soon(lambda do: do.administration.explaining.explanations.pages.page(Wanted(told=self._told(do))))
        summary = self._now(lambda do: do.administration.explaining.explanations.pages.summary(self._told(do)))
        return [row["id"] for row in page["transactions"]], summary["open"]

    # Consuming.

    @asks("consuming.pulls.pull")
    def read(self, topic: str) -> list[bytes]:
        return [view.body for view in self._door.read(topic)]

    @asks("consuming.popping.requests.pop")
    def pop(self, group: str, topic: str) -> list[Delivery]:
        request = PopRequest(group, topic, 0, 32, 60_000, 0, 0, True)
        found = self._later(lambda do, done: do.consuming.popping.requests.pop(self._member, request, done)).popped
        name = self._cluster._servers.broker_name
        return [
            Delivery(one.body, batch.queue_id, one.queue_offset, str(ReceiptHandle(
                batch.start_offset, found.pop_time, 60_000, found.revive_queue, batch.kind, name, batch.queue_id,
                one.queue_offset,
            )))
            for batch in found.batches
            for one in scan(batch.data)
        ]  # fmt: skip

    @asks("consuming.popping.requests.peek", "consuming.popping.requests.polling_count")
    def peek(self, group: str, topic: str) -> tuple[list[bytes], int]:
        def peeked(do: Operations) -> tuple[list[bytes], int]:
            requests = do.consuming.popping.requests
            popped = requests.peek(self._member, group, topic, 0, 32)
            return [one.body for batch in popped.batches for one in scan(batch.data)], requests.polling_count(
                group, topic, 0
            )

        return self._now(peeked)

    @asks("consuming.popping.requests.notification")
    def notification(self, group: str, topic: str) -> bool:
        request = NotificationRequest(group, topic, 0, 0, 0)
        ask = lambda do, done: do.consuming.popping.requests.notification(self._member, request, done)  # noqa: E731
        return bool(self._later(ask).has_message)

    @asks("sending.one.send")
    def lite_send(self, topic: str, lite_topic: str, body: bytes) -> None:
        self.send(topic, body, **{properties.LITE_TOPIC: lite_topic})

    @asks("consuming.popping.lite.subscribe")
    def lite_subscribe(self, group: str, topic: str, lite_topic: str) -> None:
        self._now(lambda do: do.consuming.popping.lite.subscribe(self._reader(group), topic, [lite_topic]))

    @asks("consuming.popping.lite.subscribe_exactly")
    def lite_subscribe_exactly(self, group: str, topic: str, lite_topic: str) -> None:
        self._now(lambda do: do.consuming.popping.lite.subscribe_exactly(self._reader(group), topic, [lite_topic]))

    @asks("consuming.popping.lite.unsubscribe")
    def lite_unsubscribe(self, group: str, topic: str, lite_topic: str) -> None:
        self._now(lambda do: do.consuming.popping.lite.unsubscribe(self._reader(group), topic, [lite_topic]))

    @asks("consuming.popping.lite.leave")
    def lite_leave(self, group: str, topic: str) -> None:
        self._now(lambda do: do.consuming.popping.lite.leave(self._reader(group)))

    @asks("consuming.popping.lite.pop")
    def lite_pop(self, group: str, topic: str) -> list[tuple[bytes, int]]:
        reader = self._reader(group)
        pop = lambda do, done: do.consuming.popping.lite.pop(  # noqa: E731
            self._member, reader, topic, 32, 60_000, 0, None, done
        )
        found = self._later(pop).popped
        return [(one.body, one.queue_offset) for batch in found.batches for one in scan(batch.data)]

    def _reader(self, group: str) -> LiteReader:
        return LiteReader(self._who.client_id, group)

    @asks("consuming.popping.acks.ack")
    def ack(self, group: str, topic: str, one: Delivery) -> None:
        delivery = PopDelivery(group, topic, one.queue_id, one.offset, one.handle)
        self._later(lambda do, done: done() if do.consuming.popping.acks.ack(delivery, done) else None)

    @asks("consuming.popping.acks.batch_ack")
    def batch_ack(self, group: str, topic: str, some: Sequence[Delivery]) -> None:
        at = parse(some[0].handle)
        bits = sum(1 << one.offset - at.start_offset for one in some)
        ack = BatchAck(
            consumer_group=group, topic=topic, start_offset=at.start_offset, queue_id=at.queue_id,
            revive_queue_id=at.revive_queue, pop_time=at.pop_time, invisible_time=at.invisible_time,
            bit_set=bits.to_bytes(8, "little"),
        )  # fmt: skip
        self._later(lambda do, done: do.consuming.popping.acks.batch_ack([ack], None, done))

    @asks("consuming.popping.acks.change_invisible_time")
    def change_invisible_time(self, group: str, topic: str, one: Delivery, invisible_ms: int) -> int:
        delivery = PopDelivery(group, topic, one.queue_id, one.offset, one.handle)
        change = lambda do, done: do.consuming.popping.acks.change_invisible_time(  # noqa: E731
            delivery, invisible_ms, suspend=False, done=done
        )
        return int(self._later(change).invisible_time)

    @asks("consuming.popping.assignments.query")
    def assigned(self, group: str, topic: str) -> list[tuple[int, str]]:
        query = AssignmentQuery(topic=topic, consumer_group=group, client_id=self._who.client_id)
        found = self._later(lambda do, done: do.consuming.popping.assignments.query(query, done))
        return [(one.message_queue.queue_id, one.mode.value) for one in found]

    @asks("consuming.popping.assignments.set_mode", "consuming.popping.assignments.modes")
    def set_mode(self, group: str, topic: str, mode: str) -> Any:
        wanted = GroupRequestMode(topic=topic, consumer_group=group, mode=RequestMode(mode))
        self._now(lambda do: do.consuming.popping.assignments.set_mode(wanted))
        return to_builtins(self._now(lambda do: do.consuming.popping.assignments.modes()))

    @asks(
        "consuming.positions.begin", "consuming.positions.end", "consuming.positions.by_time",
        "consuming.positions.earliest_store_time",
    )  # fmt: skip
    def offsets(self, topic: str) -> tuple[int, int, int, bool]:
        def asked(do: Operations) -> tuple[int, int, int, bool]:
            of = do.consuming.positions
            return (
                of.begin(topic, 0), of.end(topic, 0), of.by_time(topic, 0, 0, Boundary.LOWER),
                of.earliest_store_time(topic, 0) is not None,
            )  # fmt: skip

        return self._now(asked)

    @asks("consuming.positions.commit")
    def commit(self, group: str, topic: str, offset: int) -> None:
        self._now(lambda do: do.consuming.positions.commit(group, topic, 0, offset))

    @asks("consuming.positions.of_group")
    def position(self, group: str, topic: str) -> int:
        return self._now(lambda do: do.consuming.positions.of_group(group, topic, 0))

    @asks("consuming.positions.of_all_groups")
    def positions(self, key: str) -> Any:
        return self._now(lambda do: dict(do.consuming.positions.of_all_groups()["offsetTable"][key]))

    @asks("consuming.queries.by_key")
    def by_key(self, topic: str, key: str) -> list[bytes]:
        query = KeyQuery(topic, key, 32, 0, 1 << 50)
        records = self._now(lambda do: do.consuming.queries.by_key(self._member, query)).records
        return [one.body for record in records for one in scan(record)]

    @asks("consuming.queries.by_log_offset")
    def by_log_offset(self, log_offset: int) -> list[bytes]:
        return [
            one.body for one in scan(self._now(lambda do: do.consuming.queries.by_log_offset(self._member, log_offset)))
        ]

    # Members.

    @asks("members.heartbeat")
    def join(self, group: str, topic: str) -> None:
        consumer = ConsumerData(
            group_name=group, subscription_data_set=[SubscriptionData.of_tags(topic, "*", 1)]
        )  # fmt: skip
        beat = Heartbeat(
            client_id=self._who.client_id, producer_data_set=[ProducerData(group_name=self._who.group)],
            consumer_data_set=[consumer],
        )  # fmt: skip
        self._later(lambda do, done: do.members.heartbeat(self._member, beat, "PYTHON", 513, done))

    @asks("members.unregister")
    def leave(self, group: str) -> None:
        self._now(lambda do: do.members.unregister(self._member, None, group))

    @asks("members.client_ids")
    def client_ids(self, group: str) -> list[str]:
        return self._now(lambda do: do.members.client_ids(group))

    @asks("members.check_subscription")
    def check_subscription(self, group: str, topic: str, expression: str) -> None:
        data = SubscriptionData(topic=topic, sub_string=expression, expression_type="SQL92")
        self._now(lambda do: do.members.check_subscription(group, data))

    @asks("members.lock", "members.unlock")
    def lock(self, group: str, topic: str) -> list[int]:
        queue, client = MessageQueue(topic, self._cluster._servers.broker_name, 0), self._who.client_id
        held = self._now(lambda do: do.members.lock(group, client, [queue]))
        self._now(lambda do: do.members.unlock(group, client, [queue]))
        return [one.queue_id for one in held]

    # Administration.

    @asks("administration.changes.add")
    def make_topic(self, topic: str, queues: int) -> None:
        order = TopicOrder(topic, queues, queues, 6, "SINGLE_TAG", 0, False, None)
        self._later(lambda do, done: do.administration.changes.add(MakeTopics([order], done)))

    @asks("administration.changes.add")
    def delete_topic(self, topic: str) -> None:
        self._later(lambda do, done: do.administration.changes.add(DeleteTopic(topic, done)))

    @asks("administration.changes.add")
    def make_group(self, group: str) -> None:
        self._later(lambda do, done: do.administration.changes.add(MakeGroups([Group(group_name=group)], done)))

    @asks("administration.changes.add")
    def delete_group(self, group: str) -> None:
        self._later(lambda do, done: do.administration.changes.add(DeleteGroup(group, False, done)))

    @asks("administration.topics.get")
    def topic(self, topic: str) -> Any:
        return to_builtins(self._now(lambda do: do.administration.topics.get(topic)))

    @asks("administration.topics.table", "administration.topics.encoded_table", "administration.topics.system_topics")
    def topics(self) -> tuple[list[str], list[str]]:
        table = self._now(lambda do: do.administration.topics.table())
        assert self._now(lambda do: do.administration.topics.encoded_table()) == table.encode()
        return sorted(table.topic_config_table), self._now(lambda do: do.administration.topics.system_topics())

    @asks("administration.groups.get")
    def group(self, group: str) -> Any:
        return to_builtins(self._now(lambda do: do.administration.groups.get(group)))

    @asks("administration.groups.table", "administration.groups.encoded_table")
    def groups(self) -> list[str]:
        table = self._now(lambda do: do.administration.groups.table())
        assert self._now(lambda do: do.administration.groups.encoded_table()) == table.encode()
        return sorted(table.subscription_group_table)

    @asks("administration.groups.allow", "administration.groups.may_read")
    def allow(self, group: str, topic: str, readable: bool) -> bool:
        self._now(lambda do: do.administration.groups.allow(group, topic, readable))
        return self._now(lambda do: do.administration.groups.may_read(group, topic))

    @asks("administration.progress.of_topic")
    def topic_offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        found = self._now(lambda do: do.administration.progress.of_topic(topic)).queues
        return {queue.queue_id: (one.min_offset, one.max_offset) for queue, one in found.items()}

    @asks(
        "administration.progress.of_group", "administration.progress.of_all_groups", "administration.progress.address"
    )
    def progress(self, group: str) -> tuple[dict[int, tuple[int, int]], int]:
        of = lambda do: do.administration.progress  # noqa: E731
        pieces = self._soon(lambda do: gathered(self._cluster._clock, of(do).of_group(group, [])))
        all_pieces = self._soon(lambda do: gathered(self._cluster._clock, of(do).of_all_groups(ordered_only=False)))
        assert self._now(lambda do: of(do).address) == self._cluster.broker.address
        found = {
            queue.queue_id: (one.broker_offset, one.consumer_offset)
            for piece in pieces
            for queue, one in piece.queues.items()
        }
        every = (one for piece in all_pieces for one in piece.queues.values())
        return found, sum(one.broker_offset - one.consumer_offset for one in every)

    @asks("administration.progress.groups_of", "administration.progress.topics_of")
    def readers(self, group: str, topic: str) -> tuple[list[str], list[str]]:
        of = lambda do: do.administration.progress  # noqa: E731
        return self._now(lambda do: (of(do).groups_of(topic), of(do).topics_of(group)))

    @asks("administration.progress.time_spans")
    def time_spans(self, group: str, topic: str) -> list[int]:
        found = self._now(lambda do: do.administration.progress.time_spans(topic, group))
        return [one.message_queue.queue_id for one in found]

    @asks("administration.progress.correction", "administration.progress.clone_offsets")
    def clone(self, source: str, target: str, topic: str) -> dict[int, int]:
        of = lambda do: do.administration.progress  # noqa: E731
        self._now(lambda do: of(do).clone_offsets(source, target, topic, offline=True))
        return self._now(lambda do: of(do).correction(topic, source, []))

    @asks("administration.progress.entries")
    def entries(self, topic: str) -> list[int]:
        found = self._now(lambda do: do.administration.progress.entries(topic, 0, 0, 10, None))
        return [one.physic_offset for one in found.queue_data]

    @asks("administration.connections.consumers", "administration.connections.subscription")
    def consumers(self, group: str, topic: str) -> tuple[list[str], str]:
        found = self._now(lambda do: do.administration.connections.consumers(group))
        data = self._now(lambda do: do.administration.connections.subscription(group, topic))
        assert data is not None
        return [one.client_id for one in found.connection_set], data.sub_string

    @asks("administration.connections.producers", "administration.connections.all_producers")
    def producers(self, group: str) -> tuple[int, list[str]]:
        of = lambda do: do.administration.connections  # noqa: E731
        return self._now(lambda do: (len(of(do).producers(group)), sorted(of(do).all_producers())))

    @asks("administration.overviews.topics", "administration.overviews.groups", "administration.overviews.clients")
    def overviews(self) -> tuple[dict[str, int], list[str], list[tuple[str, str]]]:
        of = lambda do: do.administration.overviews  # noqa: E731
        topics = self._now(lambda do: {one.topic: one.messages for one in of(do).topics() if one and one.messages})
        groups = self._now(lambda do: [one.group for one in of(do).groups() if one and (one.topics or one.members)])
        return topics, groups, self._now(lambda do: sorted((one.kind, one.group) for one in of(do).clients()))

    @asks("administration.copies.changed")
    def copied_tables(self) -> list[str]:
        return self._now(lambda do: sorted(do.administration.copies.changed({}, None)))

    @asks("administration.handovers.elect")
    def elect(self, disk: int) -> None:
        self._later(lambda do, done: do.administration.handovers.elect(disk, done))

    @asks("administration.handovers.told")
    def told(self) -> None:
        self._now(lambda do: do.administration.handovers.told())

    @asks("administration.questions.running_info")
    def running_info(self, group: str, client_id: str) -> None:
        self._later(lambda do, done: do.administration.questions.running_info(group, client_id, None, done))

    @asks("administration.questions.consume_directly")
    def consume_directly(self, group: str, client_id: str) -> None:
        wanted = ConsumeNow(group, client_id, None)
        self._later(lambda do, done: do.administration.questions.consume_directly(self._member, wanted, done))

    @asks("administration.questions.positions")
    def reported_positions(self, group: str, topic: str) -> dict[str, int]:
        found = self._later(lambda do, done: do.administration.questions.positions(group, topic, "nobody", done))
        return {client_id: len(offsets) for client_id, offsets in found.items()}

    @asks("administration.resets.reset")
    def reset(self, group: str, topic: str, time_ms: int) -> dict[int, int]:
        found = self._now(lambda do: do.administration.resets.reset(ResetOrder(topic, group, time_ms)))
        return {queue.queue_id: offset for queue, offset in found.items()}

    @asks("administration.settings.text")
    def settings(self) -> str:
        return self._now(lambda do: do.administration.settings.text())

    @asks("administration.settings.update")
    def set(self, key: str, value: str) -> None:
        self._now(lambda do: do.administration.settings.update({key: value}))

    @asks(
        "administration.cleaning.expired_log", "administration.cleaning.expired_queues",
        "administration.cleaning.unused_topics",
    )  # fmt: skip
    def clean(self) -> None:
        def cleaned(do: Operations) -> None:
            do.administration.cleaning.expired_queues()
            do.administration.cleaning.unused_topics()
            do.administration.cleaning.expired_log()

        self._now(cleaned)

    @asks("administration.figures.runtime_info", "administration.figures.delay_offsets")
    def figures(self) -> tuple[list[str], list[str]]:
        of = lambda do: do.administration.figures  # noqa: E731
        return self._now(lambda do: (sorted(of(do).runtime_info()), sorted(of(do).delay_offsets())))

    @asks("administration.figures.replication")
    def replication(self) -> tuple[bool, bool]:
        state = self._now(lambda do: do.administration.figures.replication())
        return state.is_primary, state.end > 0

    @asks("administration.figures.statistic")
    def statistic(self, name: str, key: str) -> Any:
        return to_builtins(self._now(lambda do: do.administration.figures.statistic(name, key)))

    @asks("administration.figures.refusal", "administration.figures.undecided")
    def health(self) -> tuple[str, int]:
        of = lambda do: do.administration.figures  # noqa: E731
        return self._now(lambda do: ("ok" if of(do).refusal is None else "refuses writes", of(do).undecided))

    # How operations are called.

    def _told(self, do: Operations) -> Callable[[str], bool]:
        return told_to(None if do.users is None else do.users.rights, self._member)

    def _submission(self, topic: str, sys_flag: int = 0, **marks: str) -> Submission:
        return Submission(
            producer_group=self._who.group, topic=topic, queue_id=0, sys_flag=sys_flag,
            born_timestamp=1_700_000_000_000, properties=properties.encode(marks),
        )  # fmt: skip

    def _now(self, work: Callable[[Operations], Any]) -> Any:
        async def run() -> Any:
            return work(self._door._operations)

        return on(self._cluster, run())

    def _soon(self, work: Callable[[Operations], Any]) -> Any:
        async def run() -> Any:
            return await work(self._door._operations)

        return on(self._cluster, run())

    def _later(self, work: Callable[[Operations, Done], Any]) -> Any:
        """The result of ``work``, or what it hands to its ``done``."""

        async def run() -> Any:
            future = asyncio.get_running_loop().create_future()
            at_once = work(self._door._operations, lambda outcome=None: future.done() or future.set_result(outcome))
            return at_once if at_once is not None else await asyncio.wait_for(future, SECONDS)

        outcome = on(self._cluster, run())
        if isinstance(outcome, Refused):
            raise outcome
        return outcome
