"""Timer messages: withdrawing one (370), how far the broker is (60), how many wait (61).

Source: RecallMessageProcessor, AdminBrokerProcessor; docs/protocol.md#timer-messages.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.delivery.timer import TimedDelivery
from gantrymq.broker.delivery.timer_rules import TimerRules, park_for
from gantrymq.broker.durability import Durability, refusal
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.topics import Topics
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.errors import MessageIllegal, StoreError
from gantrymq.message import properties, recall_handle
from gantrymq.message.recall_handle import RecallHandle
from gantrymq.message.tags import java_hash
from gantrymq.protocol.bodies.topics import PERM_WRITE
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.send import RecallMessage, RecallMessageAnswer
from gantrymq.runtime.clock import Clock
from gantrymq.store.values import NewRecord

RECALL_TAG: Final = "_RECALL_TAG_"


class TimerProcessor:
    """Handles RECALL_MESSAGE, GET_TIMER_CHECK_POINT and GET_TIMER_METRICS."""

    def __init__(
        self,
        config: BrokerConfig,
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

    def recall(self, session: ClientSession, command: Command) -> None:
        """Note that a message is to be forgotten when its time has come."""
        header = command.header(RecallMessage)
        self._check_recall(header.topic)
        try:
            handle = recall_handle.decode(header.recall_handle)
        except MessageIllegal as error:
            raise _failed(str(error)) from error
        self._check_handle(header.topic, handle)
        order = self._order(session, handle, header.producer_group or "")
        (place,) = self._durability.append([park_for(order, self._rules.floor(handle.deliver_ms - 1))])
        self._durability.when_stored(place.end, True, partial(self._recalled, session, command, handle.unique_key))

    def _order(self, session: ClientSession, handle: RecallHandle, group: str) -> NewRecord:
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
        return NewRecord(handle.topic, 0, b"0", text, now_ms, session.host)

    def _check_recall(self, topic: str) -> None:
        config = self._config
        if not config.recall_message_enable or self._delivery is None:
            raise Refused(Refusal.NOT_PERMITTED, "recall failed, operation is forbidden (recallMessageEnable=false)")
        if not config.broker_permission & PERM_WRITE:
            raise Refused(Refusal.UNAVAILABLE, "recall failed, broker service not available")
        if not self._topics.exists(topic):
            raise Refused(Refusal.TOPIC_UNKNOWN, f"recall failed, the topic[{topic}] not exist")

    def _check_handle(self, topic: str, handle: RecallHandle) -> None:
        if handle.topic != topic:
            raise _failed(f"topic not match: the message was sent to {handle.topic!r}")
        if handle.broker_name != self._config.broker_name:
            raise _failed(f"broker service not available: the message is on {handle.broker_name!r}")
        if not 0 < handle.deliver_ms - self._clock.wall_ms() < self._rules.max_delay_ms:
            raise _failed("timestamp invalid: the message is delivered by now, or farther away than one can be")

    def _recalled(self, session: ClientSession, command: Command, unique_key: str, error: StoreError | None) -> None:
        if error is not None:
            session.send(rejected(command, refusal(error)))
            return
        answer = RecallMessageAnswer(msg_id=unique_key, region=self._config.region_id)
        session.send(encode_response(command, ResponseCode.SUCCESS, answer))

    def check_point(self, session: ClientSession, command: Command) -> bytes:
        """The first 56 bytes of ``timercheck``."""
        return encode_response(command, ResponseCode.SUCCESS, body=self._running().check.packed())

    def metrics(self, session: ClientSession, command: Command) -> bytes:
        """How many messages of each topic wait, as the JSON of TimerMetrics."""
        delivery = self._running()
        counts = delivery.waiting
        topics = {java_hash(name): name for name in self._topics.names()}
        timing = {
            topics[number]: {"count": count, "timeStamp": delivery.check.changed_ms}
            for number, count in counts.items()
            if number in topics
        }
        version = {"counter": delivery.check.changes, "stateVersion": 0, "timestamp": delivery.check.changed_ms}
        body = msgspec.json.encode({"dataVersion": version, "timingCount": timing})
        return encode_response(command, ResponseCode.SUCCESS, body=body)

    def _running(self) -> TimedDelivery:
        if self._delivery is None:
            raise Refused(Refusal.FAILED, "this broker keeps no timer messages (timerWheelEnable=false)")
        return self._delivery


def _failed(reason: str) -> Refused:
    return Refused(Refusal.CONFLICT, f"recall failed, {reason}")
