"""Through the remoting door."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import to_builtins

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.refusals import RESPONSE_CODES
from gantrymq.message import flags, properties
from gantrymq.message.heartbeat import ConsumerData, ProducerData, SubscriptionData
from gantrymq.message.message import Message
from gantrymq.message.pop import RequestMode
from gantrymq.message.queues import MessageQueue
from gantrymq.message.receipt_handle import ReceiptHandle, parse
from gantrymq.message.stats import BrokerStatsData
from gantrymq.message.summaries import Summaries
from gantrymq.message.transaction import HalfEnd, LocalTransactionState
from gantrymq.protocol import lenient_json
from gantrymq.protocol.batch import encode_batch
from gantrymq.protocol.bodies import progress
from gantrymq.protocol.bodies.copied_tables import CopiedTables, KnownTables
from gantrymq.protocol.bodies.groups import GroupForbidden, GroupList
from gantrymq.protocol.bodies.heartbeat import CheckClient, ConsumerIdList, HeartbeatData
from gantrymq.protocol.bodies.lite import LiteAction, LiteSubscriptionItem, LiteSubscriptions
from gantrymq.protocol.bodies.locks import LockBatch, LockBatchAnswer
from gantrymq.protocol.bodies.pop import BatchAckItem, BatchAckRequest, QueryAssignment, QueryAssignmentAnswer
from gantrymq.protocol.bodies.replication import HAStatus
from gantrymq.protocol.bodies.topics import KVTable, TopicList
from gantrymq.protocol.codes import RequestCode as Code
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, Header
from gantrymq.protocol.files.groups import Group, GroupTable
from gantrymq.protocol.files.request_modes import GroupRequestMode, RequestModeTable
from gantrymq.protocol.files.topics import TopicConfig, TopicTable
from gantrymq.protocol.halves import decode_codes, decode_places, encode_ends
from gantrymq.protocol.headers import consumer, lite, pop, pull, tools
from gantrymq.protocol.headers.send import RecallMessage, RecallMessageAnswer, SendMessageAnswer
from gantrymq.protocol.headers.topics import CreateTopic, DeleteGroup, GroupOnly, TopicOnly
from gantrymq.protocol.headers.transaction import EndHalves, EndTransaction
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import offset_message_id, parse_offset_message_id
from gantrymq.protocol.signature import Account
from gantrymq.protocol.stored_message import scan
from gantrymq.remoting.client import RemotingClient
from gantrymq.runtime.clock import SystemClock
from gantrymq.runtime.rng import SystemRng
from gantrymq.testing import LocalCluster
from gantrymq.testing.local.door import Half
from tests.broker.doors.asked import asks
from tests.broker.doors.who import SECONDS, Delivery, Who, on
from tests.support.brokers import pull_header, send_header

_REFUSALS: Final = {code: refusal for refusal, code in RESPONSE_CODES.items()}
NO_BODY: Final = b""


class ByFrames:
    """A producer, a consumer and an operator in one."""

    name = "remoting"
    cannot: Final = {
        "ends_by_id.": "END_TRANSACTION carries the two offsets of the half message",
        "routes.": "clients ask the name servers",
        "sending.back.dead_letter": "a popped message is given up by CONSUMER_SEND_MSG_BACK: tests/proxy",
        "administration.explaining.explanations.undecided": "LIST_TRANSACTIONS has pages, which are another operation",
        "administration.figures.refusal": "only told as writesRefused among the figures (GET_BROKER_RUNTIME_INFO)",
        "administration.figures.undecided": "SUMMARIZE_TRANSACTIONS says more",
        "administration.topics.table": "GET_ALL_TOPIC_CONFIG gives it encoded",
        "administration.groups.table": "GET_ALL_SUBSCRIPTIONGROUP_CONFIG gives it encoded",
    }

    def __init__(self, cluster: LocalCluster, who: Who) -> None:
        self._cluster = cluster
        self._who = who
        account = None if who.user is None else Account(who.user, who.secret)
        network = cluster._network.of(None)
        self._client = RemotingClient(network, SystemClock(), SystemRng(), account=account)
        if account is not None or cluster.broker.guard is None:
            self._beat([])

    def _beat(self, consumers: list[ConsumerData]) -> None:
        producers = [ProducerData(group_name=self._who.group)]
        beat = HeartbeatData(
            client_id=self._who.client_id, producer_data_set=producers, consumer_data_set=consumers
        )  # fmt: skip
        self._ask(Code.HEART_BEAT, None, beat.encode())

    # Sending.

    @asks("sending.one.send")
    def send(self, topic: str, body: bytes, **more: str) -> str | None:
        header = send_header(topic, properties.encode(more), producer_group=self._who.group)
        return self._ask(Code.SEND_MESSAGE_V2, header, body).header(SendMessageAnswer).recall_handle

    @asks("sending.one.send")
    def half(self, topic: str, body: bytes) -> Half:
        header = send_header(
            topic, properties.encode(self._marks), producer_group=self._who.group, sys_flag=flags.PREPARED
        )  # fmt: skip
        answer = self._ask(Code.SEND_MESSAGE_V2, header, body).header(SendMessageAnswer)
        return Half(answer.transaction_id or "", answer.queue_offset, parse_offset_message_id(answer.msg_id)[1])

    @property
    def _marks(self) -> dict[str, str]:
        return {properties.TRANSACTION_PREPARED: "true", properties.PRODUCER_GROUP: self._who.group}

    @asks("sending.batches.send")
    def send_batch(self, topic: str, bodies: Sequence[bytes]) -> int:
        batch = encode_batch([Message(topic, body) for body in bodies])
        header = send_header(topic, producer_group=self._who.group, batch=True)
        return self._ask(Code.SEND_BATCH_MESSAGE, header, batch).header(SendMessageAnswer).queue_offset

    @asks("sending.halves.send")
    def halves(self, topic: str, bodies: Mapping[str, bytes]) -> list[Half]:
        header = send_header(
            topic, properties.encode(self._marks), producer_group=self._who.group, sys_flag=flags.PREPARED
        )  # fmt: skip
        messages = [Message(topic, body) for body in bodies.values()]
        for key, message in zip(bodies, messages, strict=True):
            message.properties[properties.UNIQ_KEY] = key
        batch = encode_batch(messages)
        places = decode_places(self._ask(Code.SEND_HALVES, header, batch).body)
        return [Half(key, *place) for key, place in zip(bodies, places, strict=True)]

    @asks("sending.back.send_back")
    def send_back(self, group: str, log_offset: int) -> None:
        self._ask(Code.CONSUMER_SEND_MSG_BACK, consumer.SendBack(offset=log_offset, group=group, delay_level=0))

    @asks("sending.replies.reply")
    def reply(self, topic: str, **marks: str) -> None:
        header = send_header(topic, properties.encode(marks), producer_group=self._who.group)
        self._ask(Code.SEND_REPLY_MESSAGE_V2, header, b"x")

    @asks("sending.timers.recall")
    def recall(self, topic: str, handle: str) -> str:
        answer = self._ask(Code.RECALL_MESSAGE, RecallMessage(topic=topic, recall_handle=handle))
        return answer.header(RecallMessageAnswer).msg_id

    @asks("sending.timers.check_point", "sending.timers.waiting")
    def timers(self) -> tuple[int, dict[str, int]]:
        waiting = json.loads(self._ask(Code.GET_TIMER_METRICS).body)["timingCount"]
        point = self._ask(Code.GET_TIMER_CHECK_POINT).body
        return len(point), {topic: one["count"] for topic, one in waiting.items()}

    # Transactions.

    @asks("transactions.ends.end")
    def end(self, half: Half, state: LocalTransactionState) -> None:
        self._ask(Code.END_TRANSACTION, EndTransaction(
            producer_group=self._who.group, tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.log_offset, commit_or_rollback=int(state.resolution), msg_id=half.transaction_id,
            transaction_id=half.transaction_id,
        ))  # fmt: skip

    @asks("transactions.ends_many.end")
    def end_halves(self, halves: Sequence[Half], state: LocalTransactionState) -> list[Refusal | None]:
        ends = [HalfEnd(half.queue_offset, half.log_offset, half.transaction_id) for half in halves]
        header = EndHalves(producer_group=self._who.group, commit_or_rollback=int(state.resolution))
        codes = decode_codes(self._ask(Code.END_HALVES, header, encode_ends(ends)).body)
        return [None if code == 0 else _REFUSALS[ResponseCode(code)] for code in codes]

    @asks("administration.resumes.resume")
    def resume(self, log_offset: int) -> None:
        place = offset_message_id(pack_host(self._cluster.broker.address), log_offset)
        self._ask(Code.RESUME_CHECK_HALF_MESSAGE, tools.ResumeCheck(msg_id=place))

    @asks("administration.explaining.explanations.explain")
    def explain(self, transaction_id: str) -> list[dict[str, Any]]:
        answer = self._ask(Code.EXPLAIN_TRANSACTION, tools.ExplainTransaction(transaction_id=transaction_id))
        explained: list[dict[str, Any]] = json.loads(answer.body)
        return explained

    @asks("administration.explaining.explanations.checks")
    def checks(self, end: int) -> list[int]:
        rows = json.loads(self._ask(Code.LIST_CHECKS, tools.ListChecks(begin=0, end=end)).body)
        return [row[0] for row in rows]

    @asks("administration.explaining.explanations.pages.page", "administration.explaining.explanations.pages.summary")
    def listed(self) -> tuple[list[str], int]:
        page = json.loads(self._ask(Code.LIST_TRANSACTIONS, tools.ListTransactions(state="open", count=50)).body)
        summary = json.loads(self._ask(Code.SUMMARIZE_TRANSACTIONS).body)
        return [row["id"] for row in page["transactions"]], summary["open"]

    # Consuming.

    @asks("consuming.pulls.pull")
    def read(self, topic: str) -> list[bytes]:
        found: list[bytes] = []
        config = self._cluster.broker.topics.get(topic)
        assert config is not None
        for queue in range(config.read_queue_nums):
            command = self._tell(Code.PULL_MESSAGE, pull_header(topic, queue, consumer_group=self._who.group))
            if command.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND):
                raise _refused(command)
            found += _bodies(command)
        return found

    @asks("consuming.popping.requests.pop")
    def pop(self, group: str, topic: str) -> list[Delivery]:
        answer = self._tell(Code.POP_MESSAGE, pop.PopMessage(
            consumer_group=group, topic=topic, queue_id=0, max_msg_nums=32, invisible_time=60_000, poll_time=0,
            born_time=0, init_mode=1,
        ))  # fmt: skip
        if answer.code == ResponseCode.POLLING_TIMEOUT:
            return []
        header = self._good(answer).header(pop.PopMessageAnswer)
        kind, queue_id, start = (header.start_offset_info or "").split(" ")
        return [
            Delivery(one.body, int(queue_id), one.queue_offset, str(ReceiptHandle(
                int(start), header.pop_time, header.invisible_time, header.revive_qid, kind,
                self._cluster._servers.broker_name, int(queue_id), one.queue_offset,
            )))
            for one in scan(answer.body)
        ]  # fmt: skip

    @asks("consuming.popping.requests.peek", "consuming.popping.requests.polling_count")
    def peek(self, group: str, topic: str) -> tuple[list[bytes], int]:
        header = pop.PeekMessage(consumer_group=group, topic=topic, queue_id=0, max_msg_nums=32)
        found = self._tell(Code.PEEK_MESSAGE, header)
        if found.code != ResponseCode.PULL_NOT_FOUND:
            self._good(found)
        asked = pop.WaitingPops(consumer_group=group, topic=topic, queue_id=0)
        return _bodies(found), self._ask(Code.POLLING_INFO, asked).header(pop.WaitingPopsAnswer).polling_num

    @asks("consuming.popping.requests.notification")
    def notification(self, group: str, topic: str) -> bool:
        header = pop.Notification(consumer_group=group, topic=topic, queue_id=0, poll_time=0, born_time=0)
        return self._ask(Code.NOTIFICATION, header).header(pop.NotificationAnswer).has_msg

    @asks("sending.one.send")
    def lite_send(self, topic: str, lite_topic: str, body: bytes) -> None:
        self.send(topic, body, **{properties.LITE_TOPIC: lite_topic})

    @asks("consuming.popping.lite.subscribe")
    def lite_subscribe(self, group: str, topic: str, lite_topic: str) -> None:
        self._lite(LiteAction.PARTIAL_ADD, group, topic, lite_topic)

    @asks("consuming.popping.lite.subscribe_exactly")
    def lite_subscribe_exactly(self, group: str, topic: str, lite_topic: str) -> None:
        self._lite(LiteAction.COMPLETE_ADD, group, topic, lite_topic)

    @asks("consuming.popping.lite.unsubscribe")
    def lite_unsubscribe(self, group: str, topic: str, lite_topic: str) -> None:
        self._lite(LiteAction.PARTIAL_REMOVE, group, topic, lite_topic)

    @asks("consuming.popping.lite.leave")
    def lite_leave(self, group: str, topic: str) -> None:
        self._lite(LiteAction.COMPLETE_REMOVE, group, topic)

    def _lite(self, action: LiteAction, group: str, topic: str, *lite_topics: str) -> None:
        item = LiteSubscriptionItem(
            action=action, client_id=self._who.client_id, group=group, topic=topic, lite_topic_set=list(lite_topics)
        )
        self._ask(Code.LITE_SUBSCRIPTION_CTL, None, LiteSubscriptions(subscription_set=[item]).encode())

    @asks("consuming.popping.lite.pop")
    def lite_pop(self, group: str, topic: str) -> list[tuple[bytes, int]]:
        answer = self._tell(Code.POP_LITE_MESSAGE, lite.PopLiteMessage(
            client_id=self._who.client_id, consumer_group=group, topic=topic, max_msg_num=32, invisible_time=60_000,
            poll_time=0, born_time=0,
        ))  # fmt: skip
        if answer.code == ResponseCode.POLLING_TIMEOUT:
            return []
        return [(one.body, one.queue_offset) for one in scan(self._good(answer).body)]

    @asks("consuming.popping.acks.ack")
    def ack(self, group: str, topic: str, one: Delivery) -> None:
        self._ask(Code.ACK_MESSAGE, pop.AckMessage(
            consumer_group=group, topic=topic, queue_id=one.queue_id, extra_info=one.handle, offset=one.offset
        ))  # fmt: skip

    @asks("consuming.popping.acks.batch_ack")
    def batch_ack(self, group: str, topic: str, some: Sequence[Delivery]) -> None:
        at = parse(some[0].handle)
        ack = BatchAckItem(
            consumer_group=group, topic=topic, start_offset=at.start_offset, queue_id=at.queue_id,
            revive_queue_id=at.revive_queue, pop_time=at.pop_time, invisible_time=at.invisible_time,
            bit_set=sum(1 << one.offset - at.start_offset for one in some).to_bytes(8, "little"),
        )  # fmt: skip
        self._ask(Code.BATCH_ACK_MESSAGE, None, BatchAckRequest(acks=[ack]).encode())

    @asks("consuming.popping.acks.change_invisible_time")
    def change_invisible_time(self, group: str, topic: str, one: Delivery, invisible_ms: int) -> int:
        answer = self._ask(Code.CHANGE_MESSAGE_INVISIBLETIME, pop.ChangeInvisibleTime(
            consumer_group=group, topic=topic, queue_id=one.queue_id, extra_info=one.handle, offset=one.offset,
            invisible_time=invisible_ms,
        ))  # fmt: skip
        return answer.header(pop.ChangeInvisibleTimeAnswer).invisible_time

    @asks("consuming.popping.assignments.query")
    def assigned(self, group: str, topic: str) -> list[tuple[int, str]]:
        wanted = QueryAssignment(topic=topic, consumer_group=group, client_id=self._who.client_id)
        answer = QueryAssignmentAnswer.decode(self._ask(Code.QUERY_ASSIGNMENT, None, wanted.encode()).body)
        return [(one.message_queue.queue_id, one.mode.value) for one in answer.message_queue_assignments or ()]

    @asks("consuming.popping.assignments.set_mode", "consuming.popping.assignments.modes")
    def set_mode(self, group: str, topic: str, mode: str) -> Any:
        wanted = GroupRequestMode(topic=topic, consumer_group=group, mode=RequestMode(mode))
        self._ask(Code.SET_MESSAGE_REQUEST_MODE, None, wanted.encode())
        return to_builtins(RequestModeTable.decode(self._ask(Code.GET_ALL_MESSAGE_REQUEST_MODE).body))

    @asks(
        "consuming.positions.begin", "consuming.positions.end", "consuming.positions.by_time",
        "consuming.positions.earliest_store_time",
    )  # fmt: skip
    def offsets(self, topic: str) -> tuple[int, int, int, bool]:
        first, end, by_time = (
            self._ask(code, header).header(pull.OffsetAnswer).offset
            for code, header in (
                (Code.GET_MIN_OFFSET, pull.GetMinOffset(topic=topic, queue_id=0)),
                (Code.GET_MAX_OFFSET, pull.GetMaxOffset(topic=topic, queue_id=0)),
                (Code.SEARCH_OFFSET_BY_TIMESTAMP, pull.SearchOffset(topic=topic, queue_id=0, timestamp=0)),
            )
        )
        earliest = self._ask(Code.GET_EARLIEST_MSG_STORETIME, pull.GetEarliestStoreTime(topic=topic, queue_id=0))
        return first, end, by_time, earliest.header(pull.StoreTimeAnswer).timestamp >= 0

    @asks("consuming.positions.commit")
    def commit(self, group: str, topic: str, offset: int) -> None:
        self._ask(Code.UPDATE_CONSUMER_OFFSET, consumer.UpdateConsumerOffset(
            consumer_group=group, topic=topic, queue_id=0, commit_offset=offset
        ))  # fmt: skip

    @asks("consuming.positions.of_group")
    def position(self, group: str, topic: str) -> int:
        header = consumer.QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=0)
        return self._ask(Code.QUERY_CONSUMER_OFFSET, header).header(pull.OffsetAnswer).offset

    @asks("consuming.positions.of_all_groups")
    def positions(self, key: str) -> Any:
        table = lenient_json.loads(self._ask(Code.GET_ALL_CONSUMER_OFFSET).body)["offsetTable"]
        return {int(queue_id): offset for queue_id, offset in table[key].items()}

    @asks("consuming.queries.by_key")
    def by_key(self, topic: str, key: str) -> list[bytes]:
        header = pull.QueryMessage(topic=topic, key=key, max_num=32, begin_timestamp=0, end_timestamp=1 << 50)
        found = self._tell(Code.QUERY_MESSAGE, header)
        return [] if found.code == ResponseCode.QUERY_NOT_FOUND else _bodies(self._good(found))

    @asks("consuming.queries.by_log_offset")
    def by_log_offset(self, log_offset: int) -> list[bytes]:
        return _bodies(self._ask(Code.VIEW_MESSAGE_BY_ID, pull.ViewMessage(offset=log_offset)))

    # Members.

    @asks("members.heartbeat")
    def join(self, group: str, topic: str) -> None:
        subscription = SubscriptionData.of_tags(topic, "*", 1)
        self._beat([ConsumerData(group_name=group, subscription_data_set=[subscription])])

    @asks("members.unregister")
    def leave(self, group: str) -> None:
        header = consumer.UnregisterClient(client_id=self._who.client_id, consumer_group=group)
        self._ask(Code.UNREGISTER_CLIENT, header)

    @asks("members.client_ids")
    def client_ids(self, group: str) -> list[str]:
        answer = self._ask(Code.GET_CONSUMER_LIST_BY_GROUP, consumer.ConsumerListByGroup(consumer_group=group))
        return ConsumerIdList.decode(answer.body).consumer_id_list

    @asks("members.check_subscription")
    def check_subscription(self, group: str, topic: str, expression: str) -> None:
        data = SubscriptionData(topic=topic, sub_string=expression, expression_type="SQL92")
        body = CheckClient(client_id=self._who.client_id, group=group, subscription_data=data)
        self._ask(Code.CHECK_CLIENT_CONFIG, None, body.encode())

    @asks("members.lock", "members.unlock")
    def lock(self, group: str, topic: str) -> list[int]:
        queue = MessageQueue(topic, self._cluster._servers.broker_name, 0)
        body = LockBatch(client_id=self._who.client_id, consumer_group=group, mq_set=[queue]).encode()
        held = LockBatchAnswer.decode(self._ask(Code.LOCK_BATCH_MQ, None, body).body).lock_ok_mq_set
        self._ask(Code.UNLOCK_BATCH_MQ, None, body)
        return [one.queue_id for one in held]

    # Administration.

    @asks("administration.changes.add")
    def make_topic(self, topic: str, queues: int) -> None:
        self._ask(Code.UPDATE_AND_CREATE_TOPIC, CreateTopic(
            topic=topic, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=6,
            topic_filter_type="SINGLE_TAG", order=False,
        ))  # fmt: skip

    @asks("administration.changes.add")
    def delete_topic(self, topic: str) -> None:
        self._ask(Code.DELETE_TOPIC_IN_BROKER, TopicOnly(topic=topic))

    @asks("administration.changes.add")
    def make_group(self, group: str) -> None:
        self._ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, Group(group_name=group).encode())

    @asks("administration.changes.add")
    def delete_group(self, group: str) -> None:
        self._ask(Code.DELETE_SUBSCRIPTIONGROUP, DeleteGroup(group_name=group))

    @asks("administration.topics.get")
    def topic(self, topic: str) -> Any:
        return to_builtins(TopicConfig.decode(self._ask(Code.GET_TOPIC_CONFIG, TopicOnly(topic=topic)).body))

    @asks("administration.topics.encoded_table", "administration.topics.system_topics")
    def topics(self) -> tuple[list[str], list[str]]:
        table = TopicTable.decode(self._ask(Code.GET_ALL_TOPIC_CONFIG).body)
        of_system = TopicList.decode(self._ask(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER).body)
        return sorted(table.topic_config_table), of_system.topic_list

    @asks("administration.groups.get")
    def group(self, group: str) -> Any:
        return to_builtins(Group.decode(self._ask(Code.GET_SUBSCRIPTIONGROUP_CONFIG, GroupOnly(group=group)).body))

    @asks("administration.groups.encoded_table")
    def groups(self) -> list[str]:
        answer = self._ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return sorted(GroupTable.decode(answer.body).subscription_group_table)

    @asks("administration.groups.allow", "administration.groups.may_read")
    def allow(self, group: str, topic: str, readable: bool) -> bool:
        header = tools.UpdateForbidden(group=group, topic=topic, readable=readable)
        return GroupForbidden.decode(self._ask(Code.UPDATE_AND_GET_GROUP_FORBIDDEN, header).body).readable

    @asks("administration.progress.of_topic")
    def topic_offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        found = progress.TopicStats.decode(self._ask(Code.GET_TOPIC_STATS_INFO, TopicOnly(topic=topic)).body).by_queue()
        return {queue.queue_id: (one.min_offset, one.max_offset) for queue, one in found.items()}

    @asks(
        "administration.progress.of_group", "administration.progress.of_all_groups", "administration.progress.address"
    )
    def progress(self, group: str) -> tuple[dict[int, tuple[int, int]], int]:
        answer = self._ask(Code.GET_CONSUME_STATS, tools.GetConsumeStats(consumer_group=group))
        found = progress.ConsumeStats.decode(answer.body).by_queue()
        answer = self._ask(Code.GET_BROKER_CONSUME_STATS, tools.BrokerConsumeStats(is_order=False))
        every = progress.ConsumeStatsList.decode(answer.body)
        assert every.broker_addr == self._cluster.broker.address
        of_queues = {queue.queue_id: (one.broker_offset, one.consumer_offset) for queue, one in found.items()}
        return of_queues, every.total_diff

    @asks("administration.progress.groups_of", "administration.progress.topics_of")
    def readers(self, group: str, topic: str) -> tuple[list[str], list[str]]:
        groups = GroupList.decode(self._ask(Code.QUERY_TOPIC_CONSUME_BY_WHO, TopicOnly(topic=topic)).body)
        topics = TopicList.decode(self._ask(Code.QUERY_TOPICS_BY_CONSUMER, tools.GroupTopics(group=group)).body)
        return groups.group_list, topics.topic_list

    @asks("administration.progress.time_spans")
    def time_spans(self, group: str, topic: str) -> list[int]:
        answer = self._ask(Code.QUERY_CONSUME_TIME_SPAN, tools.TopicAndGroup(topic=topic, group=group))
        return [one.message_queue.queue_id for one in progress.TimeSpans.decode(answer.body).consume_time_span_set]

    @asks("administration.progress.correction", "administration.progress.clone_offsets")
    def clone(self, source: str, target: str, topic: str) -> dict[int, int]:
        header = tools.CloneOffsets(src_group=source, dest_group=target, topic=topic, offline=True)
        self._ask(Code.CLONE_GROUP_OFFSET, header)
        answer = self._ask(Code.QUERY_CORRECTION_OFFSET, tools.CorrectionOffset(topic=topic, compare_group=source))
        return progress.CorrectionOffsets.decode(answer.body).correction_offsets

    @asks("administration.progress.entries")
    def entries(self, topic: str) -> list[int]:
        header = tools.QueryConsumeQueue(topic=topic, queue_id=0, index=0, count=10)
        found = progress.ConsumeQueueEntries.decode(self._ask(Code.QUERY_CONSUME_QUEUE, header).body)
        return [one.physic_offset for one in found.queue_data]

    @asks("administration.connections.consumers", "administration.connections.subscription")
    def consumers(self, group: str, topic: str) -> tuple[list[str], str]:
        answer = self._ask(Code.GET_CONSUMER_CONNECTION_LIST, tools.ConsumerGroupOnly(consumer_group=group))
        found = progress.ConsumerConnections.decode(answer.body)
        answer = self._ask(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, tools.GroupSubscription(group=group, topic=topic))
        data = progress.SubscriptionAnswer.decode(answer.body).subscription_data
        assert data is not None
        return [one.client_id for one in found.connection_set], data.sub_string

    @asks("administration.connections.producers", "administration.connections.all_producers")
    def producers(self, group: str) -> tuple[int, list[str]]:
        answer = self._ask(Code.GET_PRODUCER_CONNECTION_LIST, tools.ProducerGroupOnly(producer_group=group))
        every = progress.ProducerTable.decode(self._ask(Code.GET_ALL_PRODUCER_INFO).body)
        return len(progress.ProducerConnections.decode(answer.body).connection_set), sorted(every.data)

    @asks("administration.overviews.topics", "administration.overviews.groups", "administration.overviews.clients")
    def overviews(self) -> tuple[dict[str, int], list[str], list[tuple[str, str]]]:
        topics, groups, clients = (
            msgspec.json.decode(self._ask(Code.SUMMARIZE, tools.Summarize(what=what)).body, type=Summaries)
            for what in ("topics", "groups", "clients")
        )
        return (
            {one.topic: one.messages for one in topics.topics if one.messages},
            [one.group for one in groups.groups if one.topics or one.members],
            sorted((one.kind, one.group) for one in clients.clients),
        )

    @asks("administration.copies.changed")
    def copied_tables(self) -> list[str]:
        return sorted(CopiedTables.decode(self._ask(Code.COPY_TABLES, body=KnownTables().encode()).body).tables)

    @asks("administration.handovers.elect")
    def elect(self, disk: int) -> None:
        self._ask(Code.CONTROLLER_ELECT_MASTER, tools.ElectMaster(broker_name="broker-a", broker_id=disk))

    @asks("administration.handovers.told")
    def told(self) -> None:
        self._ask(Code.NOTIFY_BROKER_ROLE_CHANGED)

    @asks("administration.questions.running_info")
    def running_info(self, group: str, client_id: str) -> None:
        self._ask(Code.GET_CONSUMER_RUNNING_INFO, tools.ClientOfGroup(consumer_group=group, client_id=client_id))

    @asks("administration.questions.consume_directly")
    def consume_directly(self, group: str, client_id: str) -> None:
        self._ask(Code.CONSUME_MESSAGE_DIRECTLY, tools.ConsumeDirectly(consumer_group=group, client_id=client_id))

    @asks("administration.questions.positions")
    def reported_positions(self, group: str, topic: str) -> dict[str, int]:
        header = tools.GetConsumerStatus(topic=topic, group=group, client_addr="nobody")
        answer = self._ask(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)
        table = progress.PositionsByClient.decode(answer.body).consumer_table
        return {client_id: len(offsets) for client_id, offsets in table.items()}

    @asks("administration.resets.reset")
    def reset(self, group: str, topic: str, time_ms: int) -> dict[int, int]:
        header = tools.ResetOffset(topic=topic, group=group, timestamp=time_ms, is_force=True)
        found = progress.OffsetsByQueue.decode(self._ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, header).body).by_queue()
        return {queue.queue_id: offset for queue, offset in found.items()}

    @asks("administration.settings.text")
    def settings(self) -> str:
        return self._ask(Code.GET_BROKER_CONFIG).body.decode()

    @asks("administration.settings.update")
    def set(self, key: str, value: str) -> None:
        self._ask(Code.UPDATE_BROKER_CONFIG, None, f"{key}={value}\n".encode())

    @asks(
        "administration.cleaning.expired_log", "administration.cleaning.expired_queues",
        "administration.cleaning.unused_topics",
    )  # fmt: skip
    def clean(self) -> None:
        for code in (Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.CLEAN_UNUSED_TOPIC, Code.DELETE_EXPIRED_COMMITLOG):
            self._ask(code)

    @asks("administration.figures.runtime_info", "administration.figures.delay_offsets")
    def figures(self) -> tuple[list[str], list[str]]:
        info = KVTable.decode(self._ask(Code.GET_BROKER_RUNTIME_INFO).body).table
        return sorted(info), sorted(lenient_json.loads(self._ask(Code.GET_ALL_DELAY_OFFSET).body))

    @asks("administration.figures.replication")
    def replication(self) -> tuple[bool, bool]:
        status = HAStatus.decode(self._ask(Code.GET_BROKER_HA_STATUS).body)
        return status.master, status.master_commit_log_max_offset > 0

    @asks("administration.figures.statistic")
    def statistic(self, name: str, key: str) -> Any:
        answer = self._ask(Code.VIEW_BROKER_STATS_DATA, tools.StatsKey(stats_name=name, stats_key=key))
        return to_builtins(msgspec.json.decode(answer.body, type=BrokerStatsData))

    # Frames.

    def _ask(self, code: Code, header: Header | None = None, body: bytes = NO_BODY) -> Command:
        return self._good(self._tell(code, header, body))

    def _good(self, answer: Command) -> Command:
        if answer.code != ResponseCode.SUCCESS:
            raise _refused(answer)
        return answer

    def _tell(self, code: Code, header: Header | None, body: bytes = NO_BODY) -> Command:
        address = self._cluster.broker.address
        return on(self._cluster, self._client.call(address, code, header, body, timeout_ms=SECONDS * 1000))


def _refused(answer: Command) -> Refused:
    remark = answer.remark or ""
    if answer.code == ResponseCode.MESSAGE_ILLEGAL and remark.startswith("lite_topic must"):
        return Refused(Refusal.LITE_TOPIC_ILLEGAL, remark)  # the protocol has no code of its own for it
    return Refused(_REFUSALS[ResponseCode(answer.code)], remark)


def _bodies(answer: Command) -> list[bytes]:
    return [record.body for record in scan(answer.body)]
