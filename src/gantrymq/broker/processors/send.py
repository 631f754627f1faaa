"""Sends: plain, batch, delayed, to retry topics, and half messages. The hot path of a broker.

The checks come in Apache's order (wire-protocol.md 7.4); what depends on the topic alone is done once per topic and
remembered until the topics change. Source: SendMessageProcessor, AbstractSendMessageProcessor; 5.5.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Final, NoReturn

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.delay_levels import park
from gantrymq.broker.processors.transaction_port import HalfMessages, PlacedHalf
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.topics import MESSAGE_TYPE, PERM_READ_WRITE, Topics
from gantrymq.errors import MessageIllegal, RequestRejected, StoreError, StoreUnavailable
from gantrymq.message import flags, properties, system_topics
from gantrymq.protocol.batch import split_batch
from gantrymq.protocol.bodies.topics import PERM_WRITE
from gantrymq.protocol.codes import VERSION, RequestCode, ResponseCode
from gantrymq.protocol.command import LANGUAGE, Command, SerializeType, encode_response
from gantrymq.protocol.headers.send import SendMessage, SendMessageAnswer, SendMessageLong
from gantrymq.protocol.hosts import pack_host
from gantrymq.protocol.message_ids import UniqueIds, offset_message_id
from gantrymq.remoting.server import Session
from gantrymq.runtime.clock import Clock
from gantrymq.runtime.rng import Rng
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord, Placement

Header = SendMessage | SendMessageLong

MAX_WAITING_BYTES: Final = 256 * 1024 * 1024
"""Bytes of records that may wait for the disk; beyond it sends are refused, so that a stalled disk cannot fill the
memory."""
STRICT_MAX_SINCE_VERSION: Final = 413
"""5.0.0: from this client version on a retry counts the delivery that failed, so the limit is exceeded by ``>``."""

_SENDER_FLAGS: Final = ~(flags.TRANSACTION_MASK | flags.NEED_UNWRAP | flags.INNER_BATCH)
"""What a sender may say in the system flag. The transaction type of a record is the broker's to say: a forged
"committed" record would be taken for the end of a transaction after a crash."""
_STAMPS: Final = frozenset({properties.REGION, properties.TRACE_ON, properties.CLUSTER})
_TIMERS: Final = properties.DELAYS - {properties.DELAY}
_PREFIX: Final = Struct(">II")
_UNIQ_KEY_ITEM: Final = f"{properties.UNIQ_KEY}\x01"
_NO_WAIT_ITEM: Final = f"{properties.WAIT}\x01false"


@dataclass(frozen=True, slots=True)
class _Target:
    """What sends to one topic need to know of it."""

    queues: int
    """Queue ids below this are accepted: the larger one of read and write queues."""
    write_queues: int
    message_type: str | None
    is_retry: bool


class SendProcessor:
    """Handles SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: Topics,
        groups: Groups,
        halves: HalfMessages | None,
        unique_ids: UniqueIds,
        rng: Rng,
        clock: Clock,
        store_host: bytes,
        delays_ms: Sequence[int],
    ) -> None:
        """``halves``: takes half messages; None refuses them."""
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._halves = halves
        self._unique_ids = unique_ids
        self._rng = rng
        self._clock = clock
        self._delays_ms = delays_ms
        self._max_body = config.max_message_size
        self._host = store_host
        self._stamp = properties.encode(
            {
                properties.REGION: config.region_id,
                properties.TRACE_ON: "true" if config.trace_on else "false",
                properties.CLUSTER: config.broker_cluster_name,
            }
        )
        self._waiting_bytes = 0
        self._targets: dict[str, _Target] = {}
        topics.changed.append(lambda _: self._targets.clear())
        self._id_prefix = offset_message_id(store_host, 0)[:-16]
        self._region = config.region_id
        self._trace_on = "true" if config.trace_on else "false"
        self._template = self._answer_template()

    def _answer_template(self) -> str | None:
        """The JSON answer to a plain send with places for what differs; None when the region needs escaping."""
        if not is_plain(self._region):
            return None
        return (
            '{"code":0,"extFields":{"queueId":"%d","transactionId":"%s","msgId":"'
            + self._id_prefix
            + '%016X","TRACE_ON":"'
            + self._trace_on
            + '","MSG_REGION":"'
            + self._region
            + f'","queueOffset":"%d"}},"flag":1,"language":"{LANGUAGE}","opaque":%d,'
            + f'"serializeTypeCurrentRPC":"JSON","version":{VERSION}}}'
        )

    # The hot path.

    def send(self, session: Session, command: Command) -> bytes | None:
        """SEND_MESSAGE and SEND_MESSAGE_V2."""
        header: Header = (
            command.header(SendMessageLong) if command.code == RequestCode.SEND_MESSAGE else command.header(SendMessage)
        )
        topic = header.topic
        target = self._targets.get(topic) or self._admit(header)
        body = command.body
        if not 0 < len(body) <= self._max_body:
            self._refuse_body(len(body))
        queue_id = header.queue_id
        if not 0 <= queue_id < target.queues:
            queue_id = self._queue_for(queue_id, target, topic)
        text = header.properties or ""
        if text and text[-1] != "\x02":
            text += "\x02"
        if _needs_care(text) or target.is_retry:
            return self._send_with_care(session, command, header, target, queue_id, text)
        unique_key = unique_key_of(text)
        if not unique_key:
            unique_key = self._unique_ids.next()
            text = f"{text}{_UNIQ_KEY_ITEM}{unique_key}\x02"
        text += self._stamp
        if len(text) > 8000:
            self._check_properties(text)
        return self._store_one(
            session,
            command,
            NewRecord(
                topic, queue_id, body, text, header.born_timestamp, pack_host(session.peer), header.flag,
                header.sys_flag & _SENDER_FLAGS, header.reconsume_times or 0,
            ),
            queue_id,
            unique_key,
        )  # fmt: skip

    def _store_one(
        self, session: Session, command: Command, record: NewRecord, queue_id: int, unique_key: str
    ) -> bytes | None:
        if self._waiting_bytes > MAX_WAITING_BYTES:
            self._refuse_busy()
        try:
            placement = self._store.append((record,))[0]
        except MessageIllegal as error:
            raise RequestRejected(ResponseCode.MESSAGE_ILLEGAL, str(error)) from error
        except StoreError as error:
            raise _store_refusal(error) from error
        if command.flag & 2:
            return None
        self._waiting_bytes += placement.size
        finish = partial(self._finish, session, command, placement, queue_id, unique_key)
        if _NO_WAIT_ITEM in record.properties:
            self._store.when_written(placement.end, finish)
        else:
            self._store.when_durable(placement.end, finish)
        return None

    def _finish(
        self,
        session: Session,
        command: Command,
        placement: Placement,
        queue_id: int,
        unique_key: str,
        error: StoreError | None,
    ) -> None:
        self._waiting_bytes -= placement.size
        if error is not None:
            refusal = _store_refusal(error)
            session.send(encode_response(command, refusal.code, remark=refusal.remark))
            return
        session.send(self._answer(command, placement, queue_id, unique_key))

    def _answer(self, command: Command, placement: Placement | PlacedHalf, queue_id: int, unique_key: str) -> bytes:
        if command.serialize is SerializeType.JSON and self._template is not None and is_plain(unique_key):
            # Formatting one text costs a fifth of encoding a map; nothing in it can need escaping.
            header = (
                self._template % (queue_id, unique_key, placement.log_offset, placement.queue_offset, command.opaque)
            ).encode()
            return _PREFIX.pack(len(header) + 4, len(header)) + header
        message_id = offset_message_id(self._host, placement.log_offset)
        return self._encode_answer(command, message_id, queue_id, placement.queue_offset, unique_key)

    def _encode_answer(
        self, command: Command, message_id: str, queue_id: int, queue_offset: int, unique_key: str
    ) -> bytes:
        answer = SendMessageAnswer(
            msg_id=message_id, queue_id=queue_id, queue_offset=queue_offset, transaction_id=unique_key or None,
            region=self._region, trace_on=self._trace_on,
        )  # fmt: skip
        return encode_response(command, ResponseCode.SUCCESS, answer)

    # Everything that is not an ordinary message of an ordinary topic.

    def _send_with_care(
        self, session: Session, command: Command, header: Header, target: _Target, queue_id: int, text: str
    ) -> bytes | None:
        text = properties.without(properties.without(text, properties.BROKER_ONLY), _STAMPS)
        level = _number(properties.find(text, properties.DELAY))
        reconsume_times = header.reconsume_times or 0
        # Consumers before 4.9.1 copied TRAN_MSG into messages they sent back themselves; those are no halves.
        is_half = (
            properties.find(text, properties.TRANSACTION_PREPARED) == "true"
            and not target.is_retry
            and not (reconsume_times > 0 and level > 0)
        )
        unique_key = properties.find(text, properties.UNIQ_KEY) or ""
        if not unique_key:
            unique_key = self._unique_ids.next()
            text = f"{text}{_UNIQ_KEY_ITEM}{unique_key}\x02"
        topic = header.topic
        answered_queue_id = queue_id
        if is_half:
            return self._send_half(session, command, header, target, queue_id, text, unique_key)
        if level <= 0 and any(properties.find(text, name) for name in _TIMERS):
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                "this broker has no timer wheel; use a delay level (DELAY) instead of TIMER_DELAY_SEC, TIMER_DELAY_MS "
                "or TIMER_DELIVER_MS",
            )
        if target.is_retry:
            topic, queue_id, level = self._retry_or_dead_letter(command, header, queue_id, level)
        text += self._stamp
        record = NewRecord(
            topic, queue_id, command.body, text, header.born_timestamp, pack_host(session.peer), header.flag,
            header.sys_flag & _SENDER_FLAGS, reconsume_times,
        )  # fmt: skip
        if level > 0:
            record = park(record, level, self._delays_ms, self._clock.wall_ms())
        self._check_properties(record.properties)
        return self._store_one(session, command, record, answered_queue_id, unique_key)

    def _retry_or_dead_letter(
        self, command: Command, header: Header, queue_id: int, level: int
    ) -> tuple[str, int, int]:
        """Where a message goes that a consumer could not send back by CONSUMER_SEND_MSG_BACK."""
        group_name = header.topic[len(system_topics.RETRY_PREFIX) :]
        group = self._groups.find(group_name)
        if group is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group_name}"
            )
        times = header.reconsume_times or 0
        limit = group.retry_max_times if header.max_reconsume_times is None else header.max_reconsume_times
        exceeded = times > limit if command.version >= STRICT_MAX_SINCE_VERSION else times >= limit
        if not exceeded or times == 0:
            return header.topic, queue_id, level
        topic = system_topics.dead_letter_topic(group_name)
        self._topics.ensure(topic, 1, PERM_READ_WRITE)
        return topic, 0, 0

    def _send_half(
        self, session: Session, command: Command, header: Header, target: _Target, queue_id: int, text: str, key: str
    ) -> bytes | None:
        if self._halves is None or self._config.reject_transaction_message:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._config.broker_ip1}] sending transaction message is forbidden",
            )
        if target.message_type not in (None, "TRANSACTION", "MIXED", "UNSPECIFIED"):
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the topic {header.topic!r} was given the message type {target.message_type}; send transactional "
                "messages to a topic of type TRANSACTION or MIXED, or without a type",
            )
        delay = next((name for name in sorted(properties.DELAYS) if name in text and _is_set(text, name)), None)
        if delay is not None:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL,
                f"a transactional message cannot be delayed; remove the property {delay}",
            )
        group = properties.find(text, properties.PRODUCER_GROUP)
        if group is None:
            group = header.producer_group
            text = f"{text}{properties.PRODUCER_GROUP}\x01{group}\x02"
        text += self._stamp
        self._check_properties(text, HALF_HEADROOM_BYTES)
        record = NewRecord(
            header.topic, queue_id, command.body, text, header.born_timestamp, pack_host(session.peer), header.flag,
            header.sys_flag & _SENDER_FLAGS, header.reconsume_times or 0,
        )  # fmt: skip
        finish = partial(self._finish_half, session, command, queue_id, key)
        try:
            self._halves.put_half(record, group, key, header.topic, queue_id, finish, session)
        except MessageIllegal as error:
            raise RequestRejected(ResponseCode.MESSAGE_ILLEGAL, str(error)) from error
        except StoreError as error:
            raise _store_refusal(error) from error
        return None

    def _finish_half(
        self, session: Session, command: Command, queue_id: int, key: str, half: PlacedHalf, error: StoreError | None
    ) -> None:
        if command.is_one_way:
            return
        if error is not None:
            refusal = _store_refusal(error)
            session.send(encode_response(command, refusal.code, remark=refusal.remark))
        else:
            session.send(self._answer(command, half, queue_id, key))

    # Batches.

    def send_batch(self, session: Session, command: Command) -> bytes | None:
        """SEND_BATCH_MESSAGE: ordinary messages for one queue, stored together."""
        header = command.header(SendMessage)
        target = self._targets.get(header.topic) or self._admit(header)
        if not 0 < len(command.body) <= self._max_body:
            self._refuse_body(len(command.body))
        if target.is_retry or header.topic.startswith(system_topics.DEAD_LETTER_PREFIX):
            raise RequestRejected(ResponseCode.MESSAGE_ILLEGAL, "batch request does not support retry group")
        queue_id = header.queue_id
        if not 0 <= queue_id < target.queues:
            queue_id = self._queue_for(queue_id, target, header.topic)
        born_host = pack_host(session.peer)
        records = [
            NewRecord(
                header.topic, queue_id, item.body, self._batch_properties(item.properties_text),
                header.born_timestamp, born_host, item.flag, header.sys_flag & _SENDER_FLAGS,
            )
            for item in split_batch(command.body)
        ]  # fmt: skip
        if self._waiting_bytes > MAX_WAITING_BYTES:
            self._refuse_busy()
        try:
            placements = self._store.append(records)
        except MessageIllegal as error:
            raise RequestRejected(ResponseCode.MESSAGE_ILLEGAL, str(error)) from error
        except StoreError as error:
            raise _store_refusal(error) from error
        if command.is_one_way:
            return None
        text = header.properties or ""
        size = sum(placement.size for placement in placements)
        self._waiting_bytes += size
        finish = partial(self._finish_batch, session, command, placements, queue_id, unique_key_of(text), size)
        if _NO_WAIT_ITEM in text:
            self._store.when_written(placements[-1].end, finish)
        else:
            self._store.when_durable(placements[-1].end, finish)
        return None

    def _batch_properties(self, text: str) -> str:
        if text and text[-1] != "\x02":
            text += "\x02"
        text = properties.without(text, properties.BROKER_ONLY)
        if "TRAN_MSG" in text and properties.find(text, properties.TRANSACTION_PREPARED) == "true":
            raise RequestRejected(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot hold transactional messages")
        if any(name in text and _is_set(text, name) for name in properties.DELAYS):
            raise RequestRejected(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot hold delayed messages")
        if not unique_key_of(text):
            text = f"{text}{_UNIQ_KEY_ITEM}{self._unique_ids.next()}\x02"
        self._check_properties(text)
        return text

    def _finish_batch(
        self, session: Session, command: Command, placements: list[Placement], queue_id: int, unique_key: str,
        size: int, error: StoreError | None,
    ) -> None:  # fmt: skip
        self._waiting_bytes -= size
        if error is not None:
            refusal = _store_refusal(error)
            session.send(encode_response(command, refusal.code, remark=refusal.remark))
            return
        message_ids = ",".join([f"{self._id_prefix}{placement.log_offset:016X}" for placement in placements])
        session.send(self._encode_answer(command, message_ids, queue_id, placements[0].queue_offset, unique_key))

    # Checks.

    def _admit(self, header: Header) -> _Target:
        """Everything a send needs that depends on the topic alone; raises RequestRejected."""
        topic = header.topic
        try:
            system_topics.check_topic(topic)
        except MessageIllegal as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
        if topic in system_topics.NOT_SENDABLE:
            raise RequestRejected(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
        config = self._topics.get(topic)
        is_retry = topic.startswith(system_topics.RETRY_PREFIX)
        if config is None:
            if is_retry:
                config = self._topics.ensure(topic, 1)
            else:
                config = self._topics.create_for_send(topic, header.default_topic, header.default_topic_queue_nums)
        if config is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{topic}] not exist, apply first please! (gantry topic create, or autoCreateTopicEnable=true)",
            )
        if config.order and not self._config.broker_permission & PERM_WRITE:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION, f"the broker[{self._config.broker_ip1}] sending message is forbidden"
            )
        target = self._targets[topic] = _Target(
            max(config.read_queue_nums, config.write_queue_nums),
            config.write_queue_nums,
            (config.attributes or {}).get(MESSAGE_TYPE),
            is_retry,
        )
        return target

    def _queue_for(self, queue_id: int, target: _Target, topic: str) -> int:
        if queue_id < 0 < target.write_queues:
            return self._rng.below(target.write_queues)
        raise RequestRejected(
            ResponseCode.INVALID_PARAMETER,
            f"request queueId[{queue_id}] is illegal, topic[{topic}] has {target.queues} queues; refresh the route",
        )

    def _refuse_body(self, size: int) -> NoReturn:
        if size == 0:
            raise RequestRejected(ResponseCode.MESSAGE_ILLEGAL, "the body is empty; send at least one byte")
        raise RequestRejected(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the body has {size} bytes; this broker takes at most {self._max_body} (maxMessageSize)",
        )

    def _refuse_busy(self) -> NoReturn:
        raise RequestRejected(
            ResponseCode.SYSTEM_BUSY,
            f"broker busy, start flow control for a while: {self._waiting_bytes} bytes wait for the disk",
        )

    def _check_properties(self, text: str, headroom: int = 0) -> None:
        limit = properties.MAX_BYTES - headroom
        if len(text) * 4 > limit and len(text.encode()) > limit:
            raise RequestRejected(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the properties have {len(text.encode())} bytes with what the broker adds; at most {limit} fit. "
                "Shorten them or move data into the body",
            )


HALF_HEADROOM_BYTES: Final = 1024
"""Free bytes the properties of a half message keep for what parking or resuming it adds later (X2)."""


def _needs_care(text: str) -> bool:
    """Whether the properties may hold one that only a broker sets or that changes the way of the message.

    A screen by substrings: it may be wrong only in the harmless direction.
    """
    return (
        "TRAN" in text
        or "REAL_" in text
        or "DELAY" in text
        or "TIMER_" in text
        or "CLUSTER\x01" in text
        or "MSG_REGION" in text
        or "TRACE_ON" in text
        or "__transactionId__" in text
        or "POP_CK" in text
    )


def unique_key_of(text: str) -> str:
    """UNIQ_KEY in a properties text; empty when there is none."""
    start = text.find(_UNIQ_KEY_ITEM)
    while start > 0 and text[start - 1] != "\x02":
        start = text.find(_UNIQ_KEY_ITEM, start + 1)
    if start < 0:
        return ""
    start += len(_UNIQ_KEY_ITEM)
    end = text.find("\x02", start)
    return text[start:] if end < 0 else text[start:end]


def is_plain(text: str) -> bool:
    """Whether a text can stand in JSON as it is."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


def _is_set(text: str, name: str) -> bool:
    return (properties.find(text, name) or "0") != "0"


def _number(text: str | None) -> int:
    """A number in a property; 0 when absent or malformed, like Java's broker treats a level it cannot read."""
    try:
        return int(text) if text else 0
    except ValueError:
        return 0


def _store_refusal(error: StoreError) -> RequestRejected:
    code = ResponseCode.SERVICE_NOT_AVAILABLE if isinstance(error, StoreUnavailable) else ResponseCode.SYSTEM_ERROR
    return RequestRejected(code, str(error))
