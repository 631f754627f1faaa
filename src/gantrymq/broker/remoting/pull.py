"""Pulls: checks, reading, long polling. A found answer carries the bytes of the store unchanged.

Source: PullMessageProcessor; wire-protocol.md 5.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.delivery.long_polling import HeldPull, HeldPulls
from gantrymq.broker.filtering.predicate import SelectorInvalid
from gantrymq.broker.filtering.selection import Selection, by_expression, is_tag_type
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import ConsumerGroups
from gantrymq.broker.registries.filters import ConsumerFilters
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import Topics
from gantrymq.broker.remoting.client_config import require_property_filter
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.broker.upkeep.statistics import Statistics
from gantrymq.errors import StoreError
from gantrymq.message import system_topics
from gantrymq.protocol.bodies.heartbeat import MessageModel
from gantrymq.protocol.bodies.topics import PERM_READ
from gantrymq.protocol.codes import VERSION, ResponseCode
from gantrymq.protocol.command import LANGUAGE, Command, SerializeType, encode_response
from gantrymq.protocol.headers.pull import PullMessage, PullMessageAnswer
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import GetResult, GetStatus

COMMIT_FLAG: Final = 1
SUSPEND_FLAG: Final = 2
SUBSCRIPTION_FLAG: Final = 4

MAX_BYTES_CAP: Final = 4 * 1024 * 1024
"""Bytes of one answer, whatever the client asks for: one slow reader must not hold much memory."""
MAX_SUSPEND_MS: Final = 60_000
"""How long a pull is held at most, whatever the client asks for."""
TRANSACTION_READERS: Final = frozenset({system_topics.TOOLS_CONSUMER, system_topics.TRANSACTION_GROUP})
"""Groups that may read the topics of undecided messages."""

_ANSWERS: Final[dict[GetStatus, tuple[ResponseCode, str]]] = {
    GetStatus.FOUND: (ResponseCode.SUCCESS, "FOUND"),
    GetStatus.NO_MATCHED_MESSAGE: (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE"),
    GetStatus.MESSAGE_WAS_REMOVING: (ResponseCode.PULL_RETRY_IMMEDIATELY, "MESSAGE_WAS_REMOVING"),
    GetStatus.NO_MATCHED_LOGIC_QUEUE: (ResponseCode.PULL_OFFSET_MOVED, "NO_MATCHED_LOGIC_QUEUE"),
    GetStatus.NO_MESSAGE_IN_QUEUE: (ResponseCode.PULL_OFFSET_MOVED, "NO_MESSAGE_IN_QUEUE"),
    GetStatus.OFFSET_FOUND_NULL: (ResponseCode.PULL_NOT_FOUND, "OFFSET_FOUND_NULL"),
    GetStatus.OFFSET_OVERFLOW_ONE: (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE"),
    GetStatus.OFFSET_OVERFLOW_BADLY: (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY"),
    GetStatus.OFFSET_TOO_SMALL: (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL"),
}
"""What the store says to what the client hears; an empty queue read from offset 0 is the exception."""
_EMPTY: Final = frozenset({GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE})
_PREFIX: Final = Struct(">II")
_TEMPLATE: Final = (
    b'{"code":%d,"extFields":{"suggestWhichBrokerId":"0","groupSysFlag":"0","nextBeginOffset":"%d","maxOffset":"%d",'
    b'"minOffset":"%d","topicSysFlag":"0"},"flag":1,"language":"'
    + LANGUAGE.encode()
    + b'","opaque":%d,"remark":"%b","serializeTypeCurrentRPC":"JSON","version":'
    + str(VERSION).encode()
    + b"}"
)


class PullProcessor:
    """Handles PULL_MESSAGE and LITE_PULL_MESSAGE."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        consumers: ConsumerGroups,
        filters: ConsumerFilters,
        offsets: ConsumerOffsets,
        clock: Clock,
        statistics: Statistics,
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._filters = filters
        self._offsets = offsets
        self._statistics = statistics
        self.held = HeldPulls(clock, self._resume)
        store.arrivals.append(self.held.arrived)

    def pull(self, session: ClientSession, command: Command) -> bytes | None:
        if not session.writable:
            # Many pulls at once from a client that does not read would fill our memory with answers.
            raise Refused(Refusal.ANSWERS_UNREAD, "read the answers to earlier pulls first, then ask again")
        header = command.header(PullMessage)
        self._check_group_and_topic(header)
        selection = self._selection(header)
        offsets = self._offsets
        if offsets.resets:
            offset = offsets.resets.pop((header.consumer_group, header.topic, header.queue_id), None)
            if offset is not None:
                return self._sent_elsewhere(command, header, offset)
        offsets.note_pull(header.consumer_group, header.topic, header.queue_id, header.queue_offset)
        if header.sys_flag & COMMIT_FLAG and header.commit_offset >= 0:
            self._offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        result = self._read(header, selection)
        code, remark = _answer_of(result, header.queue_offset)
        if code is ResponseCode.PULL_NOT_FOUND and header.sys_flag & SUSPEND_FLAG:
            self._hold(session, command, header, selection)
            return None
        self._count(header, result)
        return _encode(command, code, remark, result)

    def _count(self, header: PullMessage, result: GetResult) -> None:
        if result.count:
            self._statistics.got(header.topic, header.consumer_group, result.count, len(result.data))
        else:
            self._statistics.missed += 1

    def _sent_elsewhere(self, command: Command, header: PullMessage, offset: int) -> bytes:
        """The answer to the first pull after the group was reset."""
        first, end = self._store.queue_range(header.topic, header.queue_id)
        moved = GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, offset, first, end)
        return _encode(command, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", moved)

    def _read(self, header: PullMessage, selection: Selection) -> GetResult:
        config = self._config
        max_bytes = header.max_msg_bytes or config.max_transfer_bytes_on_message_in_memory
        try:
            return self._store.get(
                header.topic,
                header.queue_id,
                header.queue_offset,
                max(1, min(header.max_msg_nums, config.max_transfer_count_on_message_in_memory)),
                max(1, min(max_bytes, MAX_BYTES_CAP)),
                selection.tag_codes,
                selection.wants,
            )
        except StoreError as error:
            raise Refused(Refusal.FAILED, f"reading failed: {error}") from error

    # Long polling.

    def _hold(self, session: ClientSession, command: Command, header: PullMessage, selection: Selection) -> None:
        suspend_ms = min(header.suspend_timeout_millis, MAX_SUSPEND_MS)
        if not self._config.long_polling_enable:
            suspend_ms = min(suspend_ms, self._config.short_polling_time_mills)
        self.held.hold(
            HeldPull(session, command, header, selection, header.topic, header.queue_id), max(suspend_ms, 0) / 1000
        )

    def _resume(self, pull: HeldPull, expired: bool) -> bool:
        """Read again for a held pull; True when it was answered, False to hold it on."""
        if not pull.session.alive:
            return True
        try:
            result = self._read(pull.header, pull.selection)
            code, remark = _answer_of(result, pull.header.queue_offset)
            if code is ResponseCode.PULL_NOT_FOUND and not expired:
                return False
            self._count(pull.header, result)
            answer = _encode(pull.command, code, remark, result)
        except Refused as refusal:
            answer = rejected(pull.command, refusal)
        pull.session.send(answer)
        return True

    # Checks, in Apache's order.

    def _check_group_and_topic(self, header: PullMessage) -> None:
        if not self._config.broker_permission & PERM_READ:
            raise Refused(Refusal.NOT_PERMITTED, f"the broker[{self._config.broker_ip1}] pulling message is forbidden")
        group = self._groups.find(header.consumer_group)
        if group is None:
            raise Refused(
                Refusal.GROUP_UNKNOWN,
                f"subscription group [{header.consumer_group}] does not exist",
            )
        if not group.consume_enable:
            raise Refused(Refusal.NOT_PERMITTED, f"subscription group no permission, {header.consumer_group}")
        topic = self._topics.get(header.topic)
        if topic is None:
            raise Refused(Refusal.TOPIC_UNKNOWN, f"topic[{header.topic}] not exist, apply first please!")
        if self._groups.is_forbidden(header.consumer_group, header.topic):
            raise Refused(
                Refusal.NOT_PERMITTED,
                f"the consumer group[{header.consumer_group}] is forbidden for topic[{header.topic}]",
            )
        if not topic.perm & PERM_READ:
            raise Refused(Refusal.NOT_PERMITTED, f"the topic[{header.topic}] pulling message is forbidden")
        if header.topic in system_topics.TRANSACTION_TOPICS and header.consumer_group not in TRANSACTION_READERS:
            raise Refused(
                Refusal.NOT_PERMITTED,
                f"the topic[{header.topic}] holds messages of undecided transactions; "
                f"only {system_topics.TOOLS_CONSUMER} may read it",
            )
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[{header.consumer_group}]",
            )

    def _selection(self, header: PullMessage) -> Selection:
        """What this pull wants. Raises Refused."""
        if header.sys_flag & SUBSCRIPTION_FLAG:
            return self._inline_selection(header)
        online = self._consumers.get(header.consumer_group)
        if online is None:
            raise Refused(Refusal.SUBSCRIPTION_UNKNOWN, "the consumer's group info not exist")
        settings = self._groups.get(header.consumer_group)
        if (
            online.message_model is MessageModel.BROADCASTING
            and settings is not None
            and not settings.consume_broadcast_enable
        ):
            raise Refused(
                Refusal.NOT_PERMITTED,
                f"the consumer group[{header.consumer_group}] can not consume by broadcast way",
            )
        subscription = online.subscriptions.get(header.topic)
        if subscription is None:
            raise Refused(Refusal.SUBSCRIPTION_UNKNOWN, "the consumer's subscription not exist")
        if subscription.data.sub_version < header.sub_version:
            raise Refused(Refusal.SUBSCRIPTION_OUTDATED, "the consumer's subscription not latest")
        if not subscription.is_tag:
            return self._sql_selection(header, subscription.data.expression_type)
        return subscription.selection

    def _inline_selection(self, header: PullMessage) -> Selection:
        """Of a pull that brings its subscription with it."""
        try:
            selection = by_expression(header.subscription, header.expression_type)
        except SelectorInvalid as error:
            raise Refused(Refusal.SELECTOR_INVALID, f"parse the consumer's subscription failed: {error}") from error
        if not is_tag_type(header.expression_type):
            require_property_filter(self._config, header.expression_type)
        return selection

    def _sql_selection(self, header: PullMessage, expression_type: str | None) -> Selection:
        """Of a group whose heartbeat subscribes by an expression."""
        known = self._filters.get(header.topic, header.consumer_group)
        if known is None:
            raise Refused(
                Refusal.SELECTOR_UNKNOWN,
                "The broker's consumer filter data is not exist!Your expression may be wrong!",
            )
        if known[0].client_version < header.sub_version:
            raise Refused(Refusal.SELECTOR_OUTDATED, "the consumer's consumer filter data not latest")
        require_property_filter(self._config, expression_type)
        return known[1]


def _answer_of(result: GetResult, asked: int) -> tuple[ResponseCode, str]:
    code, remark = _ANSWERS[result.status]
    if asked == 0 and result.status in _EMPTY:
        code = ResponseCode.PULL_NOT_FOUND
    return code, remark


def _encode(command: Command, code: ResponseCode, remark: str, result: GetResult) -> bytes:
    body = result.data
    if command.serialize is SerializeType.JSON:
        header = _TEMPLATE % (
            code, result.next_offset, result.max_offset, result.min_offset, command.opaque, remark.encode(),
        )  # fmt: skip
        return b"".join((_PREFIX.pack(4 + len(header) + len(body), len(header)), header, body))
    answer = PullMessageAnswer(
        suggest_which_broker_id=0, next_begin_offset=result.next_offset, min_offset=result.min_offset,
        max_offset=result.max_offset, topic_sys_flag=0, group_sys_flag=0,
    )  # fmt: skip
    return encode_response(command, code, answer, body, remark=remark)
