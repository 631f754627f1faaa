"""Sending one message: ordinary, delayed, timed, to a retry topic, or a half message. The hot path of a broker.

Source: SendMessageProcessor of 5.5.0.
"""

from __future__ import annotations

from functools import partial

from gantrymq.broker.client import Client
from gantrymq.broker.delivery.delay_levels import park
from gantrymq.broker.delivery.timer_rules import park_for
from gantrymq.broker.durability import Done, Durability, refusal
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.operations.admission import (
    FITS_ANYWAY,
    SENDER_FLAGS,
    Admission,
    Target,
    check_properties,
    separated,
    stamp_of,
    unique_key_of,
    waits,
    with_unique_key,
)
from gantrymq.broker.operations.delays_and_retries import NOT_THE_SENDERS, DelaysAndRetries, number_of
from gantrymq.broker.operations.lite_sends import LITE_HEADROOM_BYTES, LiteSends
from gantrymq.broker.operations.message_types import by_priority, check_kind, kind_of
from gantrymq.broker.operations.properties_text import read_ordinary
from gantrymq.broker.operations.send_half import ORDINARY_KEY_CHARACTERS, HalfSends
from gantrymq.broker.submission import Answered, Stored, Submission, answer, not_safe
from gantrymq.errors import MessageIllegal, StoreError
from gantrymq.message import properties, recall_handle, system_topics
from gantrymq.message.sizes import TIMER_HEADROOM_BYTES
from gantrymq.protocol.message_ids import UniqueIds
from gantrymq.store.values import NewRecord


class Sends:
    """Takes one message after the other."""

    def __init__(
        self,
        config: LiveConfig,
        admission: Admission,
        durability: Durability,
        halves: HalfSends,
        delays_and_retries: DelaysAndRetries,
        unique_ids: UniqueIds,
        counters: MessageCounters,
        lite: LiteSends,
    ) -> None:
        self._lite = lite
        self._broker_name = config.identity.broker_name
        self._admission = admission
        self._durability = durability
        self._limited = durability.limited
        self._appender = durability.appender
        self._halves = halves
        self._delays_and_retries = delays_and_retries
        self._unique_ids = unique_ids
        self._counters = counters
        self._stamp = stamp_of(config)

    def send(
        self,
        client: Client,
        message: Submission,
        body: bytes,
        answered: Answered | None,
        *,
        counts_last_delivery: bool = True,
    ) -> None:
        """Store a message; ``answered`` gets the result later, None when nobody waits for it.

        ``counts_last_delivery``: whether the sender of a message for a retry topic counts the delivery that failed
        last. Raises Refused; then nothing was stored and ``answered`` is not called.
        """
        target, queue_id = self._admission.admit(message, len(body))
        if self._limited:
            self._durability.check_waiting()
        text = separated(message.properties)
        if target.kinds is not None:
            check_kind(kind_of(text), message.topic, target.kinds)
        ordinary = read_ordinary(text) if len(text) <= FITS_ANYWAY and not target.is_retry else None
        if ordinary is None:
            self._send_uncommon(client, message, body, target, queue_id, text, answered, counts_last_delivery)
            return
        unique_key, group, tags_code, wait, is_half = ordinary
        if is_half:
            if group is None or not unique_key or len(unique_key) > ORDINARY_KEY_CHARACTERS:
                self._send_half(client, message, body, target, queue_id, text, answered)
            else:
                record = new_record(client, message, body, message.topic, queue_id, text + self._stamp)
                record.tags_code = tags_code
                self._halves.send_ordinary(message, record, target, group, unique_key, answered)
            return
        if not unique_key:
            unique_key = self._unique_ids.next()
            text = with_unique_key(text, unique_key)
        birth = (
            message.born_timestamp, client.host, message.flag, message.sys_flag & SENDER_FLAGS,
            message.reconsume_times or 0,
        )  # fmt: skip
        try:
            place = self._appender.append_plain(
                message.topic, queue_id, body, text + self._stamp, birth, unique_key, tags_code
            )
        except (MessageIllegal, StoreError) as error:
            raise refusal(error) from error
        if answered is not None:
            log_offset = place.log_offset
            stored = Stored(log_offset, place.queue_offset, queue_id, unique_key)
            if wait and not target.made_topic:
                self._durability.tell_sender(log_offset + place.size, _answer, (answered, stored))
            else:
                self._answer(target, log_offset + place.size, wait, answered, stored)

    def _answer(self, target: Target, end: int, wait: bool, answered: Answered, stored: Stored) -> None:
        finish: Done = partial(answer, answered, stored)
        if target.made_topic:
            finish = self._admission.when_known(finish)
        self._durability.when_stored(end, wait, finish)

    # Everything that is not an ordinary message of an ordinary topic.

    def _send_uncommon(
        self, client: Client, message: Submission, body: bytes, target: Target, queue_id: int, text: str,
        answered: Answered | None, counts_last_delivery: bool,
    ) -> None:  # fmt: skip
        # Sent on by somebody who got it when its time had come: as in Apache's broker it does not wait again.
        waited = properties.find(text, properties.TIMER_OUT_MS) is not None
        text = properties.without(text, NOT_THE_SENDERS)
        text, queue_id = by_priority(text, queue_id, target.write_queues)
        level = number_of(properties.find(text, properties.DELAY))
        # Consumers before 4.9.1 copied TRAN_MSG into messages they sent back themselves; those are no halves.
        sent_back = target.is_retry or ((message.reconsume_times or 0) > 0 and level > 0)
        if properties.find(text, properties.TRANSACTION_PREPARED) == "true" and not sent_back:
            self._send_half(client, message, body, target, queue_id, text, answered)
            return
        text, unique_key = self._with_key(text)
        text, slot_ms = self._delays_and_retries.time_of(text, level, waited)
        topic, stored_queue_id = message.topic, queue_id
        if target.is_retry:
            topic, stored_queue_id, level = self._delays_and_retries.retry_or_dead_letter(
                message, queue_id, level, counts_last_delivery
            )
        record = new_record(client, message, body, topic, stored_queue_id, text + self._stamp)
        if level > 0:
            record = park(record, level, self._delays_and_retries.delays_ms, self._delays_and_retries.now_ms())
        handle, headroom = None, 0
        if slot_ms is not None:
            record, headroom = park_for(record, slot_ms), TIMER_HEADROOM_BYTES
            if not topic.startswith(system_topics.RETRY_PREFIX):
                # One more, so that what the time is rounded down to is the slot again.
                handle = recall_handle.encode(topic, self._broker_name, slot_ms + 1, unique_key)
        lite = None if target.is_retry else self._lite.queue_of(text, topic, target)
        check_properties(record.properties, headroom if lite is None else LITE_HEADROOM_BYTES)
        if lite is None:
            place = self._durability.append((record,))[0]
        else:
            place = self._durability.append_to_two(record, lite)
        if target.is_retry and topic != message.topic:
            group = topic.removeprefix(system_topics.DEAD_LETTER_PREFIX)
            self._counters.gave_up(properties.find(text, properties.RETRY_TOPIC) or message.topic, group)
        if answered is not None:
            stored = Stored(place.log_offset, place.queue_offset, queue_id, unique_key, handle)
            self._answer(target, place.end, waits(record.properties), answered, stored)

    def _send_half(
        self, client: Client, message: Submission, body: bytes, target: Target, queue_id: int, text: str,
        answered: Answered | None,
    ) -> None:  # fmt: skip
        text, unique_key = self._with_key(text)
        record = new_record(client, message, body, message.topic, queue_id, text)
        self._halves.send(message, record, target, self._stamp, unique_key, answered)

    def _with_key(self, text: str) -> tuple[str, str]:
        unique_key = unique_key_of(text)
        if unique_key:
            return text, unique_key
        unique_key = self._unique_ids.next()
        return with_unique_key(text, unique_key), unique_key


def new_record(
    client: Client, message: Submission, body: bytes, topic: str, queue_id: int, text: str
) -> NewRecord:  # fmt: skip
    """The record of a message under ``topic``, with ``text`` as its properties."""
    return NewRecord(
        topic, queue_id, body, text, message.born_timestamp, client.host, message.flag,
        message.sys_flag & SENDER_FLAGS, message.reconsume_times or 0,
    )  # fmt: skip


def _answer(waiting: tuple[Answered, Stored], error: StoreError | None) -> None:
    answered, stored = waiting
    answered(stored if error is None else not_safe(stored, error))
