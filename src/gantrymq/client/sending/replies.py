"""Request and reply with messages: a request waits for the message that a consumer sends as its reply.

The reply arrives on the connection of the requester's producer group, not through a topic that it reads. Source:
RequestFutureHolder, ClientRemotingProcessor.receiveReplyMessage, MessageUtil; docs/protocol.md#request-and-reply.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.large_bodies import ON_LOOP_BYTES, plain
from gantrymq.errors import BodyTooLarge, GantryError, MessageIllegal, TimedOut
from gantrymq.message import flags, properties
from gantrymq.message.arguments import shown
from gantrymq.message.message import Message, MessageView
from gantrymq.message.queues import LogOffset, MessageQueue, QueueOffset
from gantrymq.message.sizes import LARGEST_READ_BODY_BYTES
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.compression import decompressed_start
from gantrymq.protocol.headers.send import PushReply
from gantrymq.remoting.channel import ClientChannel
from gantrymq.runtime.clock import time_limit

log = logging.getLogger("gantrymq.client")

REPLY: Final = "reply"
_REPLY_TOPIC: Final = "_REPLY_TOPIC"


class Replies:
    """The requests of one producer that wait for their replies."""

    def __init__(self, endpoint: Endpoint, largest: int) -> None:
        """``largest``: bytes of a body that this client sends; a reply may be as large."""
        self._largest = largest
        self._endpoint = endpoint
        self._waiting: dict[str, asyncio.Future[MessageView]] = {}

    def expect(self, message: Message, timeout_ms: int) -> tuple[str, asyncio.Future[MessageView]]:
        """Make a message a request. Returns its id and the future of its reply. The caller must ``forget`` the id in
        the end."""
        correlation = self._endpoint.rng.token(16).hex()
        message.properties[properties.CORRELATION_ID] = correlation
        message.properties[properties.REPLY_TO_CLIENT] = self._endpoint.client_id
        message.properties[properties.TTL] = str(timeout_ms)
        answer: asyncio.Future[MessageView] = asyncio.get_running_loop().create_future()
        self._waiting[correlation] = answer
        return correlation, answer

    def forget(self, correlation: str) -> None:
        self._waiting.pop(correlation, None)

    async def wait(self, answer: asyncio.Future[MessageView], remaining_s: float, timeout_ms: int) -> MessageView:
        """The reply. Raises TimedOut."""
        try:
            async with time_limit(self._endpoint.clock, remaining_s):
                return await answer
        except TimeoutError as error:
            raise TimedOut("waiting for the reply to a request", timeout_ms) from error

    def pushed(self, channel: ClientChannel, command: Command) -> None:
        """Receive a reply from a broker. Raises RemoteProtocolError when it cannot be read."""
        header = command.header(PushReply)
        values = properties.decode(header.properties or "")
        answer = self._waiting.get(values.get(properties.CORRELATION_ID, ""))
        if answer is None or answer.done():
            # Java's client says so with code 1, too.
            remark = (
                f"no request in this process waits for the reply {values.get(properties.CORRELATION_ID)!r} any more"
            )
            channel.send(encode_response(command, ResponseCode.SYSTEM_ERROR, remark=remark))
            return
        body, whole = command.body, True
        if header.sys_flag & flags.COMPRESSED:
            body, whole = decompressed_start(body, header.sys_flag, ON_LOOP_BYTES)
        view = MessageView(
            topic=header.topic,
            body=body,
            properties=values,
            flag=header.flag,
            queue=MessageQueue(header.topic, self._endpoint.routes.name_at(channel.address) or "", header.queue_id),
            queue_offset=QueueOffset(0),
            message_id=values.get(properties.UNIQ_KEY, ""),
            offset_message_id="",
            born_timestamp=header.born_timestamp,
            born_host=header.born_host,
            store_timestamp=header.store_timestamp,
            store_host=header.store_host,
            reconsume_times=header.reconsume_times or 0,
            log_offset=LogOffset(0),
            sys_flag=header.sys_flag,
        )
        if whole:
            answer.set_result(view)
        else:
            self._endpoint.tasks.start("large reply", self._complete(view, command.body, answer))
        if not command.is_one_way:
            channel.send(encode_response(command, ResponseCode.SUCCESS))

    async def _complete(self, view: MessageView, packed: bytes, answer: asyncio.Future[MessageView]) -> None:
        """A reply that is too large to be decompressed on the event loop."""
        most = max(LARGEST_READ_BODY_BYTES, self._largest)
        try:
            view.body, whole = await plain(packed, view.sys_flag, most)
            if not whole:
                raise BodyTooLarge(f"the replies on {view.topic}", view.queue_offset, most)
        except GantryError as error:
            if not answer.done():
                answer.set_exception(error)
            return
        if not answer.done():
            answer.set_result(view)


def reply_to(
    request: MessageView, body: bytes | str, values_of_user: Mapping[str, str] | None = None
) -> tuple[Message, MessageQueue]:
    """The reply to a request, and the queue to send it to. It goes to the broker from which the request came, because
    the requester is connected to it. Raises MessageIllegal when ``request`` is not a request.
    """
    if not isinstance(request, MessageView):
        raise MessageIllegal(f"the request must be a MessageView, as a consumer gets it, not {shown(request)}")
    values = request.properties
    correlation, client = values.get(properties.CORRELATION_ID), values.get(properties.REPLY_TO_CLIENT)
    cluster = values.get(properties.CLUSTER)
    if not correlation or not client:
        raise MessageIllegal("the message is not a request: it does not say who waits for a reply")
    if not cluster:
        raise MessageIllegal("the request does not name its cluster, which its broker should have added")
    message = Message(cluster + _REPLY_TOPIC, body, properties=values_of_user)
    message.properties[properties.MESSAGE_TYPE] = REPLY
    message.properties[properties.CORRELATION_ID] = correlation
    message.properties[properties.REPLY_TO_CLIENT] = client
    message.properties[properties.TTL] = values.get(properties.TTL, "")
    return message, MessageQueue(message.topic, request.queue.broker_name, 0)
