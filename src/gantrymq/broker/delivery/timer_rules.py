"""The rules for timer messages: when one is due, how it is stored, how it is delivered. Pure.

Source: HookUtils.transformTimerMessage, TimerMessageStore; docs/protocol.md#timer-messages.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Final

from gantrymq.broker.delivery.delay_levels import real_place
from gantrymq.broker.delivery.delivered import mark_of
from gantrymq.errors import MessageIllegal
from gantrymq.message import flags, properties, system_topics
from gantrymq.message.message import StoredMessage
from gantrymq.message.tags import java_hash
from gantrymq.protocol.hosts import pack_host
from gantrymq.store.timer_log import DEFAULT, DELETE, FIRST, ROLL, Unit
from gantrymq.store.values import NewRecord

LEAST_PRECISION_MS: Final = 100
"""Each precision that RocketMQ has (``timerPrecisionMs``) is a multiple of it."""
_LONG: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_ADDED: Final = frozenset({properties.TIMER_ENQUEUE_MS, properties.TIMER_DEQUEUE_MS, properties.TIMER_ROLL_TIMES})


@dataclass(frozen=True, slots=True)
class TimerRules:
    """The settings that decide; RocketMQ's keys, in ms."""

    precision_ms: int
    """Width of a slot: a message is delivered at its time or up to so much later."""
    max_delay_ms: int
    roll_window_ms: int
    """A message that is due later than this is put to the end of the log again on its way, away from old files."""

    def floor(self, time_ms: int) -> int:
        return time_ms // self.precision_ms * self.precision_ms

    def slot_of(self, text: str, now_ms: int, timer_ms: int | None = None) -> int | None:
        """The slot a message waits for; None when its time is here or past. Raises MessageIllegal.

        ``now_ms``: by the wall clock, which senders mean. ``timer_ms``: by the timer, which has the slots; None: the
        same.
        """
        due = due_ms(text, now_ms)
        if due <= now_ms:
            if properties.find(text, properties.TIMER_DELETE_KEY) is not None:
                raise MessageIllegal("timer message illegal: it is to withdraw a message whose time is past")
            return None
        if due - now_ms > self.max_delay_ms:
            raise MessageIllegal(
                f"timer message illegal, the delay time should not be bigger than the max delay {self.max_delay_ms}ms "
                "(timerMaxDelaySec)"
            )
        return self.floor(due - 1 if timer_ms is None else timer_ms + due - now_ms - 1)

    def unit_of(self, message: StoredMessage, now_ms: int, not_before_ms: int) -> Unit | None:
        """Where a message of the timer topic waits; None when it does not say for what.

        ``not_before_ms``: the first slot that is still to be delivered.
        """
        out = properties.find(message.properties_text, properties.TIMER_OUT_MS)
        if out is None or _LONG.fullmatch(out) is None:
            return None
        written = self.floor(now_ms)
        time = max(int(out), not_before_ms)
        magic = DEFAULT
        if time - written >= self.roll_window_ms:
            magic |= ROLL
            beyond = time - written - self.roll_window_ms
            # Not the whole window when little of the way would be left behind it.
            way = self.roll_window_ms // 2 if beyond < self.roll_window_ms // 3 else self.roll_window_ms
            time = self.floor(written + way)
        if properties.find(message.properties_text, properties.TIMER_DELETE_KEY) is not None:
            magic |= DELETE
        topic = properties.find(message.properties_text, properties.REAL_TOPIC)
        written = min(written, time)
        return Unit(
            FIRST, magic, written, time - written, message.log_offset, message.size, java_hash(topic) if topic else 0
        )


def can_be_of(message: StoredMessage, unit: Unit) -> bool:
    """Whether ``unit_of`` can have made this unit of this message; no: some of its bytes are not what was written."""
    out = properties.find(message.properties_text, properties.TIMER_OUT_MS)
    if out is None or _LONG.fullmatch(out) is None:
        return False
    if unit.magic & ROLL:
        return unit.time_ms < int(out) and unit.written_ms % LEAST_PRECISION_MS == 0
    return unit.time_ms >= int(out)


def is_order(unit: Unit) -> bool:
    """Whether this message withdraws another one."""
    return bool(unit.magic & DELETE) and not unit.magic & ROLL


def delay_s(message: StoredMessage) -> float:
    """For how many seconds a message of the timer topic is to wait: from its birth, by the clock of its sender."""
    out = properties.find(message.properties_text, properties.TIMER_OUT_MS) or "0"
    return max(0, int(out) - message.born_timestamp) / 1000


def due_ms(text: str, now_ms: int) -> int:
    """The time of delivery that a message asks for. Raises MessageIllegal for an invalid number."""
    for name, factor, start in (
        (properties.TIMER_DELAY_SECONDS, 1000, now_ms),
        (properties.TIMER_DELAY_MS, 1, now_ms),
        (properties.TIMER_DELIVER_MS, 1, 0),
    ):
        value = properties.find(text, name)
        if value is not None:
            if _LONG.fullmatch(value) is None:
                raise MessageIllegal(f"timer message illegal: {name} is {value!r}; write a whole number")
            return start + int(value) * factor
    return now_ms


def park_for(record: NewRecord, slot_ms: int) -> NewRecord:
    """``record`` as it waits in the timer topic, its real place in its properties."""
    addition = properties.encode(
        {
            properties.TIMER_OUT_MS: str(slot_ms),
            properties.REAL_TOPIC: record.topic,
            properties.REAL_QUEUE_ID: str(record.queue_id),
        }
    )
    text = properties.append(record.properties, addition)
    return dataclasses.replace(record, topic=system_topics.TIMER, queue_id=0, properties=text)


Name = tuple[str, str]
"""Topic and unique key: what an order to forget a message names it by."""


def name_of(message: StoredMessage) -> Name:
    """What such an order would name this message by."""
    text = message.properties_text
    return properties.find(text, properties.REAL_TOPIC) or "", properties.find(text, properties.UNIQ_KEY) or ""


def withdrawn_by(order: StoredMessage) -> Name:
    """The message that an order is about: Apache's 5.5.0 writes its key, what comes after that ``topic+key``."""
    text = order.properties_text
    topic = properties.find(text, properties.REAL_TOPIC) or ""
    return topic, (properties.find(text, properties.TIMER_DELETE_KEY) or "").removeprefix(f"{topic}+")


def delivery(message: StoredMessage, unit: Unit, now_ms: int) -> NewRecord | None:
    """The record a message becomes when its slot is reached: under its real topic, or rolled; None: it has no place."""
    place = (system_topics.TIMER, 0) if unit.magic & ROLL else real_place(message.properties_text)
    if place is None or (place[0] in system_topics.NOT_SENDABLE and not unit.magic & ROLL):
        return None
    return NewRecord(
        place[0], place[1], message.body, _stamped(message.properties_text, unit, now_ms), message.born_timestamp,
        pack_host(message.born_host), message.flag, message.sys_flag & ~flags.TRANSACTION_MASK, message.reconsume_times,
        mark_of(message.log_offset),
    )  # fmt: skip


def _stamped(text: str, unit: Unit, now_ms: int) -> str:
    rolled = int(properties.find(text, properties.TIMER_ROLL_TIMES) or 0) + bool(unit.magic & ROLL)
    added = {
        properties.TIMER_ENQUEUE_MS: str(unit.written_ms),
        properties.TIMER_ROLL_TIMES: str(rolled) if rolled else "",
        properties.TIMER_DEQUEUE_MS: str(now_ms),
    }
    return properties.append(properties.without(text, _ADDED), properties.encode(added))
