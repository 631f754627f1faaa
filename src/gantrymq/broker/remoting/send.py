"""Sends: plain, delayed, to retry topics, and half messages. The hot path of a broker.

Source: SendMessageProcessor of 5.5.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.delivery.delay_levels import park
from gantrymq.broker.delivery.timer_rules import HEADROOM_BYTES, TimerRules, park_for
from gantrymq.broker.durability import Done, Durability, refusal
from gantrymq.broker.operations.admission import (
    FITS_ANYWAY,
    SENDER_FLAGS,
    Admission,
    SendHeader,
    Target,
    check_properties,
    is_set,
    separated,
    unique_key_of,
    waits,
    with_unique_key,
)
from gantrymq.broker.operations.half_messages import HalfMessages, PlacedHalf
from gantrymq.broker.operations.half_properties import UsualHalves
from gantrymq.broker.operations.plain_properties import UsualSends
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.topics import PERM_READ_WRITE, Topics
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.send_answers import SendAnswers, answer_to
from gantrymq.errors import MessageIllegal, StoreError
from gantrymq.message import flags, properties, recall_handle, system_topics
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import ONE_WAY_FLAG, Command
from gantrymq.protocol.headers.send import SendMessage, SendMessageLong
from gantrymq.protocol.message_ids import UniqueIds
from gantrymq.runtime.clock import Clock
from gantrymq.store.dispatch import tags_code_of
from gantrymq.store.values import NewRecord, Placement

HALF_HEADROOM_BYTES: Final = 1024
"""Free bytes the properties of a half message keep for what parking or resuming it adds later (X2)."""
STRICT_MAX_SINCE_VERSION: Final = 413
"""5.0.0: from this client version on a retry counts the delivery that failed, so the limit is exceeded by ``>``."""

_HALF_TYPES: Final = (None, "TRANSACTION", "MIXED", "UNSPECIFIED")
"""Message types of topics that take half messages; None: the topic was given none."""
_STAMPS: Final = frozenset({properties.REGION, properties.TRACE_ON, properties.CLUSTER})
_NOT_THE_SENDERS: Final = properties.BROKER_ONLY | _STAMPS
_DELAYS: Final = tuple(sorted(properties.DELAYS))
"""Each of these names has "DEL" in it."""
_TIMERS: Final = properties.DELAYS - {properties.DELAY}


class SendProcessor:
    """Handles SEND_MESSAGE and SEND_MESSAGE_V2."""

    def __init__(
        self,
        config: BrokerConfig,
        admission: Admission,
        durability: Durability,
        answers: SendAnswers,
        topics: Topics,
        groups: Groups,
        halves: HalfMessages,
        unique_ids: UniqueIds,
        clock: Clock,
        delays_ms: Sequence[int],
        timer: TimerRules | None,
    ) -> None:
        """``timer``: None when timer messages are refused (timerWheelEnable=false)."""
        self._config = config
        self._admission = admission
        self._durability = durability
        self._append_plain, self._limited = durability.append_plain, durability.limited
        self._storing = durability.shared_answers(_tell_all)
        self._answers = answers
        self._topics = topics
        self._groups = groups
        self._halves = halves
        self._put_usual = halves.put_usual
        self._unique_ids = unique_ids
        self._clock = clock
        self._delays_ms = delays_ms
        self._timer = timer
        self._usual_halves = UsualHalves()
        self._read_usual = UsualSends().read
        self._stamp = properties.encode(
            {
                properties.REGION: config.region_id,
                properties.TRACE_ON: "true" if config.trace_on else "false",
                properties.CLUSTER: config.broker_cluster_name,
            }
        )

    def send(self, session: ClientSession, command: Command) -> bytes | None:
        ext = command.ext
        header: SendHeader = ext if isinstance(ext, SendMessage) else _header_of(command)
        admission = self._admission
        target, queue_id = admission.admit(header, len(command.body))
        if self._limited:
            self._durability.check_waiting()
        text = separated(header.properties)
        if header.sys_flag & flags.PREPARED and not target.is_retry:  # a hint: halves without it are found below
            half = self._usual_halves.read(text)
            if half is not None:
                self._send_usual_half(session, command, header, target, queue_id, text, *half)
                return None
        usual = None
        if len(text) <= FITS_ANYWAY and not target.is_retry:
            usual = self._read_usual(header.topic, text)
        if usual is None:
            if needs_care(text) or target.is_retry:
                return self._send_unusual(session, command, header, target, queue_id, text)
            usual = unique_key_of(text), tags_code_of(text), waits(text)
        unique_key, tags_code, wait = usual
        if not unique_key:
            unique_key = self._unique_ids.next()
            text = with_unique_key(text, unique_key)
        text += self._stamp
        if len(text) > FITS_ANYWAY:
            check_properties(text)
        try:
            place = self._append_plain(
                header.topic, queue_id, command.body, text, header.born_timestamp, session.host,
                header.flag, header.sys_flag & SENDER_FLAGS, header.reconsume_times or 0, unique_key, tags_code,
            )  # fmt: skip
        except (MessageIllegal, StoreError) as error:
            raise refusal(error) from error
        if not command.flag & ONE_WAY_FLAG:
            # Made now, while the disk is at work, and not when it has answered.
            answer = self._answers.stored(command, place, queue_id, unique_key)
            if wait and not admission.made_topic:
                self._storing.add(place.end, (session, command, answer))
            else:
                finish: Done = partial(_tell, session, command, answer)
                if admission.made_topic:
                    finish = admission.when_known(finish)
                self._durability.when_stored(place.end, wait, finish)
        return None

    def _send_unusual(
        self, session: ClientSession, command: Command, header: SendHeader, target: Target, queue_id: int, text: str
    ) -> bytes | None:
        usual = self._usual_halves.read(text)
        if usual is not None and not target.is_retry:
            self._send_usual_half(session, command, header, target, queue_id, text, *usual)
            return None
        return self._send_with_care(session, command, header, target, queue_id, text)

    def _store(
        self,
        session: ClientSession,
        command: Command,
        record: NewRecord,
        queue_id: int,
        unique_key: str,
        recall: str | None = None,
    ) -> bytes | None:
        place = self._durability.append((record,))[0]
        if not command.flag & ONE_WAY_FLAG:
            finish: Done = partial(self._finish, session, command, place, queue_id, unique_key, recall)
            if self._admission.made_topic:
                finish = self._admission.when_known(finish)
            self._durability.when_stored(place.end, waits(record.properties), finish)
        return None

    def _finish(
        self,
        session: ClientSession,
        command: Command,
        place: Placement | PlacedHalf,
        queue_id: int,
        unique_key: str,
        recall: str | None,
        error: StoreError | None,
    ) -> None:
        session.send(answer_to(command, self._answers.stored(command, place, queue_id, unique_key, recall), error))

    # Everything that is not an ordinary message of an ordinary topic.

    def _send_with_care(
        self, session: ClientSession, command: Command, header: SendHeader, target: Target, queue_id: int, text: str
    ) -> bytes | None:
        # Sent on by somebody who got it when its time had come: as in Apache's broker it does not wait again.
        waited = properties.find(text, properties.TIMER_OUT_MS) is not None
        text = properties.without(text, _NOT_THE_SENDERS)
        level = _number(properties.find(text, properties.DELAY))
        unique_key = unique_key_of(text)
        if not unique_key:
            unique_key = self._unique_ids.next()
            text = with_unique_key(text, unique_key)
        # Consumers before 4.9.1 copied TRAN_MSG into messages they sent back themselves; those are no halves.
        sent_back = target.is_retry or ((header.reconsume_times or 0) > 0 and level > 0)
        if properties.find(text, properties.TRANSACTION_PREPARED) == "true" and not sent_back:
            self._send_half(session, command, header, target, queue_id, text, unique_key)
            return None
        slot_ms = None
        if level > 0:
            text = properties.without(text, _TIMERS)
        elif not waited and any(properties.find(text, name) for name in _TIMERS):
            slot_ms = self._slot_of(text)
        topic, stored_queue_id = header.topic, queue_id
        if target.is_retry:
            topic, stored_queue_id, level = self._retry_or_dead_letter(command, header, queue_id, level)
        record = _record(session, command, header, topic, stored_queue_id, text + self._stamp)
        if level > 0:
            record = park(record, level, self._delays_ms, self._clock.wall_ms())
        if slot_ms is not None:
            return self._store_timed(session, command, record, queue_id, unique_key, slot_ms)
        check_properties(record.properties)
        return self._store(session, command, record, queue_id, unique_key)

    def _slot_of(self, text: str) -> int | None:
        """The time a timer message waits for; None: it is here."""
        if self._timer is None:
            raise Refused(
                Refusal.FAILED,
                "accurate timer message is not enabled, timerWheelEnable is false; use a delay level (DELAY) instead",
            )
        try:
            return self._timer.slot_of(text, self._clock.wall_ms())
        except MessageIllegal as error:
            raise refusal(error) from error

    def _store_timed(
        self, session: ClientSession, command: Command, record: NewRecord, queue_id: int, unique_key: str, slot_ms: int
    ) -> bytes | None:
        parked = park_for(record, slot_ms)
        check_properties(parked.properties, HEADROOM_BYTES)
        handle = None
        if not record.topic.startswith(system_topics.RETRY_PREFIX):
            # One more, so that what the time is rounded down to is the slot again.
            handle = recall_handle.encode(record.topic, self._config.broker_name, slot_ms + 1, unique_key)
        return self._store(session, command, parked, queue_id, unique_key, handle)

    def _retry_or_dead_letter(
        self, command: Command, header: SendHeader, queue_id: int, level: int
    ) -> tuple[str, int, int]:
        """Topic, queue and delay level of a message that a consumer could not send back by CONSUMER_SEND_MSG_BACK."""
        group_name = header.topic[len(system_topics.RETRY_PREFIX) :]
        group = self._groups.find(group_name)
        if group is None:
            raise Refused(Refusal.GROUP_UNKNOWN, f"subscription group not exist, {group_name}")
        times = header.reconsume_times or 0
        limit = group.retry_max_times if header.max_reconsume_times is None else header.max_reconsume_times
        exceeded = times > limit if command.version >= STRICT_MAX_SINCE_VERSION else times >= limit
        if not exceeded or times == 0:
            return header.topic, queue_id, level
        topic = system_topics.dead_letter_topic(group_name)
        self._topics.ensure(topic, 1, PERM_READ_WRITE)
        return topic, 0, 0

    def _send_usual_half(
        self, session: ClientSession, command: Command, header: SendHeader, target: Target, queue_id: int, text: str,
        group: str, key: str, tags_code: int, decisive: bool,
    ) -> None:  # fmt: skip
        """``_send_with_care`` of a half whose properties need none."""
        if self._config.reject_transaction_message or target.message_type not in _HALF_TYPES:
            self._check_half(header, target, text)
        try:
            self._put_usual(
                header.topic, queue_id, command.body, text + self._stamp, header.born_timestamp,
                session.host, header.flag, header.sys_flag & SENDER_FLAGS, header.reconsume_times or 0,
                group, key, tags_code, decisive,
                partial(self._half_stored, session, command, queue_id, key, self._admission.made_topic),
            )  # fmt: skip
        except (MessageIllegal, StoreError) as error:
            raise refusal(error) from error

    def _half_stored(
        self, session: ClientSession, command: Command, queue_id: int, key: str, made_topic: bool, half: PlacedHalf,
        error: StoreError | None,
    ) -> None:  # fmt: skip
        if command.flag & ONE_WAY_FLAG:
            return
        if made_topic:
            finish: Done = partial(self._finish, session, command, half, queue_id, key, None)
            self._admission.when_known(finish)(error)
        elif error is None:
            session.send(self._answers.stored(command, half, queue_id, key))
        else:
            session.send(answer_to(command, self._answers.stored(command, half, queue_id, key), error))

    def _send_half(
        self,
        session: ClientSession,
        command: Command,
        header: SendHeader,
        target: Target,
        queue_id: int,
        text: str,
        key: str,
    ) -> None:
        self._check_half(header, target, text)
        self._usual_halves.learn(text)
        group = properties.find(text, properties.PRODUCER_GROUP)
        if group is None:
            group = header.producer_group
            text = f"{text}{properties.PRODUCER_GROUP}\x01{group}\x02"
        text += self._stamp
        check_properties(text, HALF_HEADROOM_BYTES)
        record = _record(session, command, header, header.topic, queue_id, text)
        done = partial(self._half_stored, session, command, queue_id, key, self._admission.made_topic)
        try:
            self._halves.put_half(record, group, key, header.topic, queue_id, done)
        except (MessageIllegal, StoreError) as error:
            raise refusal(error) from error

    def _check_half(self, header: SendHeader, target: Target, text: str) -> None:
        """Refuse a half message now that could not be checked, delivered or parked later."""
        if self._config.reject_transaction_message:
            raise Refused(
                Refusal.NOT_PERMITTED,
                f"the broker[{self._config.broker_ip1}] sending transaction message is forbidden",
            )
        problem = None
        if target.message_type not in _HALF_TYPES:
            problem = (
                f"the topic {header.topic!r} was given the message type {target.message_type}; send transactional "
                "messages to a topic of type TRANSACTION or MIXED, or without a type"
            )
        delay = next((name for name in _DELAYS if is_set(text, name)), None) if "DEL" in text else None
        if delay is not None:
            problem = f"a transactional message cannot be delayed; remove the property {delay}"
        if properties.find(text, properties.PRODUCER_GROUP) is None:
            try:
                system_topics.check_group(header.producer_group)
            except MessageIllegal as error:
                problem = f"a transactional message needs its producer group: {error}"
        if problem is not None:
            raise Refused(Refusal.MESSAGE_ILLEGAL, problem)


def _header_of(command: Command) -> SendHeader:
    if command.code == RequestCode.SEND_MESSAGE:
        return command.header(SendMessageLong)
    return command.header(SendMessage)


def _tell(session: ClientSession, command: Command, answer: bytes, error: StoreError | None) -> None:
    session.send(answer if error is None else answer_to(command, answer, error))


def _tell_all(waiting: list[tuple[ClientSession, Command, bytes]], error: StoreError | None) -> None:
    for session, command, answer in waiting:
        session.send(answer if error is None else answer_to(command, answer, error))


def _record(
    session: ClientSession, command: Command, header: SendHeader, topic: str, queue_id: int, text: str
) -> NewRecord:
    return NewRecord(
        topic, queue_id, command.body, text, header.born_timestamp, session.host, header.flag,
        header.sys_flag & SENDER_FLAGS, header.reconsume_times or 0,
    )  # fmt: skip


def needs_care(text: str) -> bool:
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


def _number(text: str | None) -> int:
    """A number in a property; 0 when absent or malformed, like Java's broker treats a level it cannot read."""
    try:
        return int(text) if text else 0
    except ValueError:
        return 0
