"""Answers the requests that a broker sends to a consumer, mostly for tools: report its state, reset its offsets,
consume one message.

Source: ClientRemotingProcessor; docs/protocol.md#resetting-offsets.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections.abc import Mapping
from typing import Final, Protocol

from gantrymq.client.connection.endpoint import Endpoint, decline
from gantrymq.client.consuming.push_queue import PushQueue
from gantrymq.client.large_bodies import begun_view, complete
from gantrymq.client.listener import described, goes_on, is_async
from gantrymq.client.message_listener import MessageListener, read_answer
from gantrymq.errors import BodyTooLarge, GantryError
from gantrymq.message.message import MessageView, StoredMessage
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.bodies.progress import (
    ConsumedDirectly,
    ConsumerRunning,
    OffsetsByQueue,
    PositionsByClient,
    key_of,
)
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.tools import ConsumeDirectly, GetConsumerStatus
from gantrymq.protocol.stored_message import decode_record
from gantrymq.remoting.channel import ClientChannel

log = logging.getLogger("gantrymq.client")

JAVA_VERSION: Final = "V5_5_0"
"""The version that tools see in ``PROP_CLIENT_VERSION``: the RocketMQ version whose protocol this client speaks."""
MIB: Final = 1024 * 1024


class AskedConsumer(Protocol):
    """What a consumer must implement to answer the requests of brokers."""

    def rebalance_soon(self) -> None: ...

    def positions(self, topic: str) -> Mapping[MessageQueue, QueueOffset]:
        """The progress in each queue of a topic that this consumer reads."""

    def running(self) -> ConsumerRunning: ...

    async def go_to(self, offsets: Mapping[MessageQueue, QueueOffset]) -> None:
        """Continue at other offsets in those of the queues that this consumer reads."""

    async def consume_directly(self, view: MessageView) -> ConsumedDirectly: ...


class BrokerQuestions:
    """Answers the requests of brokers to one consumer."""

    def __init__(self, endpoint: Endpoint, consumer: AskedConsumer, most: int) -> None:
        """``most``: bytes of a body after decompression."""
        self._most = most
        self._endpoint = endpoint
        self._consumer = consumer

    def asked(self, channel: ClientChannel, command: Command) -> None:
        """Answer one request. Raises GantryError when it cannot be read."""
        match command.code:
            case RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
                self._consumer.rebalance_soon()
            case RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
                table = OffsetsByQueue.decode(command.body).by_queue()
                log.warning("the broker %s sets the progress of this group: %s", channel.address, table)
                offsets = {queue: QueueOffset(offset) for queue, offset in table.items()}
                self._endpoint.tasks.start("reset of offsets", self._consumer.go_to(offsets))
            case RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
                positions = self._consumer.positions(command.header(GetConsumerStatus).topic)
                by_key = {key_of(queue): int(offset) for queue, offset in positions.items()}
                self._answer(channel, command, PositionsByClient(message_queue_table=by_key).encode())
            case RequestCode.GET_CONSUMER_RUNNING_INFO:
                self._answer(channel, command, self._consumer.running().encode())
            case RequestCode.CONSUME_MESSAGE_DIRECTLY:
                name = command.header(ConsumeDirectly).broker_name
                stored = decode_record(command.body)
                view = begun_view(stored, name or self._endpoint.routes.name_at(channel.address) or "")
                self._endpoint.tasks.start("consume directly", self._consume(channel, command, view, stored))
            case _:
                decline(channel, command)

    def _answer(self, channel: ClientChannel, command: Command, body: bytes) -> None:
        if not command.is_one_way:
            channel.send(encode_response(command, ResponseCode.SUCCESS, body=body))

    async def _consume(
        self, channel: ClientChannel, command: Command, view: MessageView, stored: StoredMessage
    ) -> None:
        if view.body_cut:
            await complete(view, stored, self._most)
        if view.body_cut:
            error = BodyTooLarge(str(view.queue), view.queue_offset, self._most)
            result = ConsumedDirectly(
                order=False, consume_result="CR_THROW_EXCEPTION", remark=str(error), spent_time_mills=0
            )
        else:
            result = await self._consumer.consume_directly(view)
        try:
            self._answer(channel, command, result.encode())
        except GantryError as error:
            log.info(
                "the result of a message that was consumed at the request of a tool cannot be delivered: %s", error
            )


async def consumed_directly(
    endpoint: Endpoint, listener: MessageListener, view: MessageView, *, order: bool
) -> ConsumedDirectly:
    """Give the listener one message, independent of all others. Returns the result, also when the listener fails."""
    started = endpoint.clock.monotonic()
    result, remark = await (_in_task(listener, view) if is_async(listener) else _in_thread(listener, view))
    spent_ms = int((endpoint.clock.monotonic() - started) * 1000)
    return ConsumedDirectly(order=order, consume_result=result, remark=remark, spent_time_mills=spent_ms)


async def _in_task(listener: MessageListener, view: MessageView) -> tuple[str, str | None]:
    task = asyncio.current_task()
    try:
        answer = listener([view])
        return _result(await answer if inspect.isawaitable(answer) else answer)
    except BaseException as error:
        if goes_on(error, task):
            raise
        return _failure(error)


async def _in_thread(listener: MessageListener, view: MessageView) -> tuple[str, str | None]:
    """Call the listener in a thread of its own. If the listener hangs, it occupies no thread of the event loop's pool,
    and the process can still end."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[str, str | None]] = loop.create_future()

    def tell(outcome: tuple[str, str | None]) -> None:
        if not ended.done():
            ended.set_result(outcome)

    def run() -> None:
        try:
            outcome = _result(listener([view]))
        except BaseException as error:  # noqa: BLE001 - whatever the user's code raises is what was asked for
            outcome = _failure(error)
        with contextlib.suppress(RuntimeError):  # the event loop is closed, and nothing waits for the result
            loop.call_soon_threadsafe(tell, outcome)

    threading.Thread(target=run, name="gantrymq-consume-directly", daemon=True).start()
    return await ended


def _result(answer: object) -> tuple[str, str | None]:
    return ("CR_LATER" if read_answer(answer) is not None else "CR_SUCCESS"), None


def _failure(error: BaseException) -> tuple[str, str | None]:
    return "CR_THROW_EXCEPTION", described(error)


def queue_state(reader: PushQueue, *, locked: bool) -> dict[str, int | bool]:
    """One queue in the terms of Java's ProcessQueueInfo. Fields without a meaning in this client are 0."""
    window = reader.window
    low, high = window.bounds
    return {
        "commitOffset": window.committable,
        "cachedMsgCount": window.count,
        "cachedMsgMinOffset": low,
        "cachedMsgMaxOffset": high,
        "cachedMsgSizeInMiB": window.bytes_in_flight // MIB,
        "transactionMsgCount": 0,
        "transactionMsgMinOffset": 0,
        "transactionMsgMaxOffset": 0,
        "locked": locked,
        "tryUnlockTimes": 0,
        "lastLockTimestamp": 0,
        "droped": reader.dropped,
        "lastPullTimestamp": reader.pulled_ms,
        "lastConsumeTimestamp": reader.consumed_ms,
    }
