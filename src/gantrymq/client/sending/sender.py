"""The way of one message from a checked value to the answer of its broker: what every send costs is here.

The producers that users see stay Python, and this is compiled (docs/compiled.md).
"""

from __future__ import annotations

import copy
from functools import partial

from gantrymq.client.config import ProducerConfig
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.connection.namespaces import with_namespace
from gantrymq.client.results import SendResult
from gantrymq.client.sending.delivery import Delivery, Tried
from gantrymq.client.sending.send_frame import SendFrames
from gantrymq.client.sending.stamps import Stamps
from gantrymq.client.settings_rules import check_timeout
from gantrymq.errors import TimedOut, Unreachable
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.message.validation import check_queue
from gantrymq.protocol import compression


class Sender:
    """Sends the messages of one producer."""

    def __init__(self, endpoint: Endpoint, config: ProducerConfig, delivery: Delivery, stamps: Stamps, group: str):
        """``stamps``: for messages that come without."""
        self._endpoint = endpoint
        self._config = config
        self._delivery = delivery
        self._stamps = stamps
        self._group = group
        self._frames: dict[MessageQueue, SendFrames] = {}
        self._compress_over_bytes = config.compress_over_bytes
        self._timeout_ms = config.send_timeout_ms
        self._compression = compression.flags_of(config.compress_type)

    async def send(
        self,
        message: Message,
        given_queue: object,
        timeout_ms: object,
        sys_flag: int = 0,
        stamp: tuple[str, bytes] | None = None,
        stay: bool = False,
    ) -> SendResult:
        """``given_queue``, ``timeout_ms``: as the user passed them, so their types are checked here. ``stamp``: the id
        and the properties, when the message is stamped already."""
        delivery, clock, topic = self._delivery, self._endpoint.clock, message.topic
        started = clock.monotonic()
        limit_ms = self.limit_ms(timeout_ms)
        queue = None if given_queue is None else check_queue(given_queue, topic)
        delivery.in_flight += 1
        try:
            way = delivery.way(topic, queue, started)
            if way is None and self._endpoint.routes.known(topic) is None:
                # This comes before the id is made: the id contains our address, which is known from the first
                # connection on. A copy, because the caller may change the object while we wait for the connection.
                message = message.with_properties({**message.properties})
                await delivery.queues(topic, started + limit_ms / 1000)
            born_ms = clock.wall_ms()
            message_id, text = stamp or self._stamps.stamp(message.properties, born_ms)
            body, flag = message.body, message.flag
            if len(body) >= self._compress_over_bytes:
                body, packed = self.packed(body)
                sys_flag |= packed
            result = first = None
            if way is not None:
                target, channel = way
                opaque = channel.next_opaque()
                frame = self.frames_of(target).frame(opaque, sys_flag, born_ms, flag, text, body, False)
                try:
                    answer = await channel.request(opaque, frame, limit_ms, started)
                except (Unreachable, TimedOut) as failure:
                    first = Tried(target, channel.address, failure, started)
                else:
                    result = delivery.settled(answer, target, message_id, started)
                    first = Tried(target, channel.address, answer, started) if result is None else None
            if result is None:
                make = partial(self.frame, sys_flag, born_ms, flag, text, body)
                deadline = started + limit_ms / 1000
                result = await delivery.deliver(topic, message_id, make, deadline, queue, stay=stay, first=first)
            return result
        finally:
            delivery.in_flight -= 1

    def frame(
        self, sys_flag: int, born_ms: int, flag: int, text: bytes, body: bytes, target: MessageQueue, opaque: int
    ) -> bytes:
        return self.frames_of(target).frame(opaque, sys_flag, born_ms, flag, text, body, False)

    def deadline(self, timeout_ms: object) -> float:
        return self._endpoint.clock.monotonic() + self.limit_ms(timeout_ms) / 1000

    def limit_ms(self, timeout_ms: object) -> int:
        """``timeout_ms``, or the default of the producer. Raises ConfigError for an invalid time."""
        if timeout_ms is None:
            return self._timeout_ms
        check_timeout(timeout_ms)
        assert isinstance(timeout_ms, int)  # which is what it checks
        return timeout_ms

    def in_namespace(self, message: Message) -> Message:
        """The message with its topic as brokers know it."""
        topic = with_namespace(self._config.namespace, message.topic)
        if topic == message.topic:
            return message
        spaced = copy.copy(message)
        spaced.topic = topic
        return spaced

    def packed(self, body: bytes) -> tuple[bytes, int]:
        """The body on the wire and its system flag: the body is compressed only when that makes it smaller."""
        if len(body) < self._compress_over_bytes:
            return body, 0
        packed = compression.compress(body, self._config.compress_level, self._compression)
        return (packed, self._compression) if len(packed) < len(body) else (body, 0)

    def frames_of(self, queue: MessageQueue) -> SendFrames:
        frames = self._frames.get(queue)
        if frames is None:
            frames = SendFrames(self._group, queue, self._config.default_topic_queue_nums)
            self._frames[queue] = frames
        return frames
