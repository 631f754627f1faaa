"""Timer messages: withdrawing one, the progress of their delivery, and the number that waits.

Source: RecallMessageProcessor, AdminBrokerProcessor; docs/protocol.md#timer-messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from gantrymq.broker.client import Client
from gantrymq.broker.delivery.timer import TimedDelivery
from gantrymq.broker.delivery.timer_rules import TimerRules, park_for
from gantrymq.broker.durability import Durability, refusal
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.topics import Topics
from gantrymq.errors import MessageIllegal, StoreError
from gantrymq.message import properties, recall_handle
from gantrymq.message.recall_handle import RecallHandle
from gantrymq.message.tags import java_hash
from gantrymq.protocol.files.topics import PERM_WRITE
from gantrymq.runtime.clock import Clock
from gantrymq.store.values import NewRecord

RECALL_TAG: Final = "_RECALL_TAG_"

Recalled = Callable[[str | Refused], None]
"""Called once: with the unique key (UNIQ_KEY) of the message that was withdrawn."""


@dataclass(frozen=True, slots=True)
class TimersWaiting:
    """How many timer messages wait."""

    by_topic: dict[str, int]
    changes: int
    """How often the check point has changed."""
    changed_ms: int


class Timers:
    """What senders and tools ask about timer messages."""

    def __init__(
        self,
        config: LiveConfig,
        rules: TimerRules,
        delivery: TimedDelivery | None,
        durability: Durability,
        topics: Topics,
        clock: Clock,
    ) -> None:
        """``delivery``: None when this broker takes no timer messages."""
        self._config = config
        self._rules = rules
        self._delivery = delivery
        self._durability = durability
        self._topics = topics
        self._clock = clock

    def recall(self, client: Client, topic: str, handle_text: str, producer_group: str, done: Recalled) -> None:
        """Note that a message is to be forgotten when its time has come. ``done`` is called when that is stored."""
        self._check_recall(topic)
        try:
            handle = recall_handle.decode(handle_text)
        except MessageIllegal as error:
            raise _failed(str(error)) from error
        self._check_handle(topic, handle)
        order = self._order(client, handle, producer_group)
        (place,) = self._durability.append([park_for(order, self._rules.floor(handle.deliver_ms - 1))])
        self._durability.when_stored(place.end, True, partial(_recalled, done, handle.unique_key))

    def _order(self, client: Client, handle: RecallHandle, group: str) -> NewRecord:
        """The message that waits in the same slot and says that another one is to be forgotten."""
        now_ms = self._clock.wall_ms()
        values = {
            properties.TAGS: RECALL_TAG,
            properties.TIMER_DELETE_KEY: handle.unique_key,
            properties.UNIQ_KEY: handle.unique_key,
            properties.TIMER_DELIVER_MS: str(handle.deliver_ms),
            properties.BORN_TIMESTAMP: str(now_ms),
            properties.PRODUCER_GROUP: group,
        }
        try:
            text = properties.encode(values)
        except MessageIllegal as error:
            raise _failed(str(error)) from error
        return NewRecord(handle.topic, 0, b"0", text, now_ms, client.host)

    def _check_recall(self, topic: str) -> None:
        config = self._config
        if not config.delay.recall_message_enable or self._delivery is None:
            raise Refused(Refusal.NOT_PERMITTED, "recall failed, operation is forbidden (recallMessageEnable=false)")
        if not config.identity.broker_permission & PERM_WRITE:
            raise Refused(Refusal.UNAVAILABLE, "recall failed, broker service not available")
        if not self._topics.exists(topic):
            raise Refused(Refusal.TOPIC_UNKNOWN, f"recall failed, the topic[{topic}] not exist")

    def _check_handle(self, topic: str, handle: RecallHandle) -> None:
        if handle.topic != topic:
            raise _failed(f"topic not match: the message was sent to {handle.topic!r}")
        if handle.broker_name != self._config.identity.broker_name:
            raise _failed(f"broker service not available: the message is on {handle.broker_name!r}")
        # A slot of the timer: it is no time of the wall clock, if that has stepped.
        if not 0 < handle.deliver_ms - self._running().now_ms() < self._rules.max_delay_ms:
            raise _failed("timestamp invalid: the message is delivered by now, or farther away than one can be")

    def check_point(self) -> bytes:
        """How far the timer is: the first 56 bytes of ``timercheck``."""
        return self._running().check.packed()

    def waiting(self) -> TimersWaiting:
        """How many messages of each topic wait."""
        delivery = self._running()
        names = {java_hash(name): name for name in self._topics.names()}
        by_topic = {names[number]: count for number, count in delivery.waiting.items() if number in names}
        return TimersWaiting(by_topic, delivery.check.changes, delivery.check.changed_ms)

    def _running(self) -> TimedDelivery:
        if self._delivery is None:
            raise Refused(Refusal.SWITCHED_OFF, "this broker keeps no timer messages (timerWheelEnable=false)")
        return self._delivery


def _recalled(done: Recalled, unique_key: str, error: StoreError | None) -> None:
    done(unique_key if error is None else refusal(error))


def _failed(reason: str) -> Refused:
    return Refused(Refusal.CONFLICT, f"recall failed, {reason}")
