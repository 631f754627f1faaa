"""Sends messages that could not be consumed back to the broker, which delivers them again later or moves them to the
dead letters.

Source: DefaultMQPushConsumerImpl.sendMessageBack; docs/protocol.md#retries-and-dead-letters.
"""

from __future__ import annotations

import logging
from typing import Final

from gantrymq.client.config import ProducerConfig
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.sending.delivery import Delivery
from gantrymq.client.sending.stamps import properties_text
from gantrymq.client.tracing.watch import Watch
from gantrymq.errors import GantryError, RequestRejected, Unreachable
from gantrymq.message import properties, system_topics
from gantrymq.message.message import MessageView
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import encode_request
from gantrymq.protocol.headers.consumer import SendBack
from gantrymq.protocol.headers.send import SendMessage

log = logging.getLogger("gantrymq.client")

DEAD_LETTER: Final = -1
"""The delay level that means: to the dead letters at once."""
TIMEOUT_MS: Final = 5_000
"""The time-out of this request; Apache's value."""
FIRST_DELAY_LEVEL: Final = 3
"""The delay level of the first retry: 10 s. Each further retry takes the next level."""
DEFAULT_MAX_RECONSUME_TIMES: Final = 16


class SendBacks:
    """Sends back the messages of one consumer group."""

    def __init__(
        self, endpoint: Endpoint, group: str, max_reconsume_times: int, watch: Watch | None = None
    ) -> None:  # fmt: skip
        self._watch = watch
        self._endpoint = endpoint
        self._group = group
        self._max = max_reconsume_times if max_reconsume_times >= 0 else DEFAULT_MAX_RECONSUME_TIMES
        config = ProducerConfig(name_servers=endpoint.config.name_servers)
        self._delivery = Delivery(endpoint, config)

    async def give_back(self, view: MessageView, delay_level: int = 0) -> None:
        """Ask the broker that holds the message to deliver it again. If it refuses, send a copy to the retry topic.

        ``delay_level``: 0: the broker decides; negative: to the dead letters. Raises GantryError when the copy could
        not be sent either; then this member must consume the message again.
        """
        if self._watch is None:
            await self._give_back(view, delay_level)
            return
        act = self._watch.settling("nack", view.topic, (view,))
        try:
            await self._give_back(view, delay_level)
        except BaseException as error:
            act.failed(error)
            raise
        act.done()

    async def _give_back(self, view: MessageView, delay_level: int) -> None:
        try:
            await self._ask(view, delay_level)
        except GantryError as error:
            log.info(
                "the broker did not take message %s back (%s); sending a copy to the retry topic",
                view.message_id,
                error,
            )
            await self.resend(view)

    async def set_aside(self, view: MessageView, most: int) -> None:
        """Move a message to the dead letters whose body grows over ``most`` bytes: no delivery could succeed. The
        broker copies it as it is stored. Raises GantryError when it did not.
        """
        log.error(
            "message %s at offset %d of %s goes to the dead letters of %s: its body grows over max_body_bytes=%d when "
            "it is decompressed", view.message_id, view.queue_offset, view.queue, self._group, most,
        )  # fmt: skip
        await self._ask(view, DEAD_LETTER)

    async def _ask(self, view: MessageView, delay_level: int) -> None:
        address = self._endpoint.routes.master(view.queue.broker_name)
        if address is None:
            raise Unreachable(view.queue.broker_name, "the name servers know no master of that broker")
        header = SendBack(
            offset=view.log_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=view.message_id,
            origin_topic=wire_topic(view),
            unit_mode=False,
            max_reconsume_times=self._max,
            bname=view.queue.broker_name,
        )
        answer = await self._endpoint.call(address, RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout_ms=TIMEOUT_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise RequestRejected(answer.code, answer.remark, request="send-back", address=address)

    async def resend(self, view: MessageView) -> None:
        """Send a copy to the retry topic. The broker makes it a dead letter if it was delivered too often."""
        times = view.reconsume_times + 1
        values = {name: value for name, value in view.properties.items() if name not in _OF_ONE_DELIVERY}
        values.setdefault(properties.RETRY_TOPIC, wire_topic(view))
        values.setdefault(properties.ORIGIN_MESSAGE_ID, view.message_id)
        values[properties.RECONSUME_TIME] = str(times)
        values[properties.MAX_RECONSUME_TIMES] = str(self._max)
        if times > self._max:
            # The message becomes a dead letter, and 4.9 brokers would apply the delay even to that.
            values.pop(properties.DELAY, None)
        else:
            values[properties.DELAY] = str(FIRST_DELAY_LEVEL + view.reconsume_times)
        text = properties_text(values)
        topic = system_topics.retry_topic(self._group)

        def frame(queue: MessageQueue, opaque: int) -> bytes:
            header = SendMessage(
                producer_group=system_topics.CLIENT_INNER_PRODUCER,
                topic=topic,
                default_topic=system_topics.AUTO_CREATE,
                default_topic_queue_nums=1,
                queue_id=queue.queue_id,
                sys_flag=0,
                born_timestamp=self._endpoint.clock.wall_ms(),
                flag=view.flag,
                properties=text,
                reconsume_times=times,
                unit_mode=False,
                max_reconsume_times=self._max,
                batch=False,
                bname=queue.broker_name,
            )
            return encode_request(RequestCode.SEND_MESSAGE_V2, opaque, header, view.body)

        deadline = self._endpoint.clock.monotonic() + TIMEOUT_MS / 1000
        await self._delivery.deliver(topic, view.message_id, frame, deadline, None)


_OF_ONE_DELIVERY: Final = frozenset(
    {properties.MIN_OFFSET, properties.MAX_OFFSET, properties.CONSUME_START_TIME, properties.TRANSACTION_PREPARED}
)
"""Properties that belong to the delivery that failed, not to the message. TRAN_MSG would make the copy a half message.
"""


def wire_topic(view: MessageView) -> str:
    """The topic to which a delivered message was first sent, as brokers name it. It is not the retry topic."""
    if view.queue.topic.startswith(system_topics.RETRY_PREFIX):
        return view.properties.get(properties.RETRY_TOPIC, view.topic)
    return view.queue.topic
