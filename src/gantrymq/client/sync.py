"""The blocking clients: the same names and signatures as in ``gantrymq.aio``, without ``await``.

Every method may be called from any thread, also at the same time. A call that is interrupted (Ctrl-C, a signal handler
that raises) is abandoned, and the interrupt is raised at once. What was sent may have been executed, and the client
stays usable. Two calls are different: an interrupted ``start`` closes the client, and an interrupted ``close``
continues without its caller. In a forked child all calls raise UsedAfterFork: create new clients there. ``close`` in a
child does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Self, TypeVar, Unpack

from gantrymq.client import (
    lite_pull_consumer,
    lite_simple_consumer,
    producer,
    pull_consumer,
    push_consumer,
    simple_consumer,
    transaction_producer,
)
from gantrymq.client.connection.blocking import Blocking
from gantrymq.client.connection.endpoint import Outside
from gantrymq.client.consuming.filters import EVERYTHING, Filter
from gantrymq.client.consuming.pulling import DEFAULT_MAX_BYTES
from gantrymq.client.consuming.queue_arguments import checked_queues
from gantrymq.client.keywords import (
    LitePullSettings,
    ProducerSettings,
    PullSettings,
    PushSettings,
    SimpleSettings,
    TransactionProducerSettings,
)
from gantrymq.client.listener import TransactionListener, is_async
from gantrymq.client.message_listener import MessageListener
from gantrymq.client.results import PullResult, RawPull, SendResult, TransactionSendResult
from gantrymq.client.sending.half_ends import undecided
from gantrymq.client.sending.ordering import QueueSelector, by_hash
from gantrymq.errors import Closed, GantryError
from gantrymq.message.heartbeat import ConsumeFromWhere
from gantrymq.message.message import Message, MessageView
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.bodies.route import TopicRoute

T = TypeVar("T")


class Producer(Blocking["producer.Producer"]):
    """Sends messages of one producer group; see ``gantrymq.aio.Producer``. Share one among all threads."""

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Iterable[str],
        outside: Outside | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """``settings``: fields of ProducerConfig."""
        super().__init__(producer.Producer(group, name_servers=name_servers, outside=outside, **settings))

    @property
    def group(self) -> str:
        """The producer group, as it was given."""
        return self._client.group

    def send(self, message: Message, queue: MessageQueue | None = None, timeout_ms: int | None = None) -> SendResult:
        """Send and wait until the broker has stored the message; see ``gantrymq.aio.Producer.send``."""
        return self._call(self._client.send, message, queue, timeout_ms)

    def send_async(
        self, message: Message, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> Future[SendResult]:
        """Send without waiting; the future gets what ``send`` would return or raise.

        Callbacks of the future run on the client's own thread: they must be short and make no blocking call.
        """
        if isinstance(message, Message):
            # A copy, because the caller continues and may change the object before the event loop sends it.
            message = message.with_properties({**message.properties})
        return self._open_portal().submit(self._client.send, message, queue, timeout_ms)

    def send_oneway(self, message: Message, queue: MessageQueue | None = None) -> None:
        """Send without waiting for an answer; see ``gantrymq.aio.Producer.send_oneway``."""
        self._call(self._client.send_oneway, message, queue)

    def send_batch(
        self, messages: Sequence[Message], queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> SendResult:
        """Send several messages to one queue; see ``gantrymq.aio.Producer.send_batch``."""
        return self._call(self._client.send_batch, messages, queue, timeout_ms)

    def send_ordered(
        self, message: Message, key: str, timeout_ms: int | None = None, *, selector: QueueSelector = by_hash
    ) -> SendResult:
        """Send to the queue that all messages of ``key`` go to; see ``gantrymq.aio.Producer.send_ordered``."""

        async def work() -> SendResult:
            return await self._client.send_ordered(message, key, timeout_ms, selector=selector)

        return self._call(work)

    def send_batches(
        self, messages: Iterable[Message], queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> list[SendResult]:
        """Send any number of messages in batches; see ``gantrymq.aio.Producer.send_batches``."""
        return self._call(self._client.send_batches, list(messages), queue, timeout_ms)

    def recall(self, topic: str, recall_handle: str, timeout_ms: int | None = None) -> str:
        """Withdraw a message before its time; see ``gantrymq.aio.Producer.recall``."""
        return self._call(self._client.recall, topic, recall_handle, timeout_ms)

    def request(
        self, message: Message, timeout_ms: int | None = None, queue: MessageQueue | None = None
    ) -> MessageView:
        """Send a request and wait for its reply; see ``gantrymq.aio.Producer.request``."""
        return self._call(self._client.request, message, timeout_ms, queue)

    def reply(
        self,
        request: MessageView,
        body: bytes | str,
        timeout_ms: int | None = None,
        *,
        properties: Mapping[str, str] | None = None,
    ) -> SendResult:
        """Answer a request that a consumer got; see ``gantrymq.aio.Producer.reply``."""
        return self._call(partial(self._client.reply, properties=properties), request, body, timeout_ms)

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues a message of ``topic`` may be sent to."""
        return self._call(self._client.queues, topic)


class TransactionProducer(Producer):
    """Sends messages that appear only when a local transaction commits; see ``gantrymq.aio.TransactionProducer``."""

    _client: transaction_producer.TransactionProducer

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Iterable[str],
        listener: TransactionListener,
        outside: Outside | None = None,
        **settings: Unpack[TransactionProducerSettings],
    ) -> None:
        """``listener``: runs and checks local transactions. ``settings``: fields of TransactionProducerConfig."""
        inner = transaction_producer.TransactionProducer(
            group, name_servers=name_servers, listener=listener, outside=outside, **settings
        )
        Blocking.__init__(self, inner)

    def send_in_transaction(
        self, message: Message, arg: Any = None, *, transaction_id: str | None = None
    ) -> TransactionSendResult:
        """Send a half message, run the listener's ``execute_local_transaction(message, arg)`` in this thread, end it.

        Checks run in threads of their own (``check_threads``). An exception in the listener means UNKNOWN and is in
        the result. An interrupt (KeyboardInterrupt, SystemExit), in the listener or anywhere else in this call, is
        raised after UNKNOWN was sent to the broker, which will check the transaction later. Everything else is as in
        ``gantrymq.aio.TransactionProducer.send_in_transaction``.
        """
        client, opened = self._client, self._open_portal()
        if is_async(client.listener.execute_local_transaction):

            async def work() -> TransactionSendResult:
                return await client.send_in_transaction(message, arg, transaction_id=transaction_id)

            return opened.call(work)
        run = transaction_producer.LocalRun()
        try:
            return opened.converse(client.transact_in_caller, run, message, arg, transaction_id)
        except Closed as error:
            if run.half is None or run.outcome is None:
                raise
            return undecided(run.half, run.outcome, error)


class PullConsumer(Blocking["pull_consumer.PullConsumer"]):
    """Reads messages by queue and offset; see ``gantrymq.aio.PullConsumer``."""

    def __init__(
        self,
        group: str | None = None,
        *,
        name_servers: str | Iterable[str],
        outside: Outside | None = None,
        **settings: Unpack[PullSettings],
    ) -> None:
        """``group``: needed for ``committed`` and ``commit`` only. ``settings``: fields of PullConfig."""
        super().__init__(pull_consumer.PullConsumer(group, name_servers=name_servers, outside=outside, **settings))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that may be read, freshly asked."""
        return self._call(self._client.queues, topic)

    def known_route(self, topic: str) -> TopicRoute | None:
        """See ``gantrymq.aio.PullConsumer.known_route``."""
        return self._call(self._client.known_route, topic)

    def introduce(self, topic: str, route: TopicRoute) -> None:
        """See ``gantrymq.aio.PullConsumer.introduce``."""
        self._call(self._client.introduce, topic, route)

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_count: int = 32,
        tags: str = "*",
        *,
        wait_ms: int = 0,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> PullResult:
        """Up to ``max_count`` messages from ``offset`` on; see ``gantrymq.aio.PullConsumer.pull``."""

        async def work() -> PullResult:
            return await self._client.pull(queue, offset, max_count, tags, wait_ms=wait_ms, max_bytes=max_bytes)

        return self._call(work)

    def processing(self, messages: MessageView | Sequence[MessageView]) -> AbstractContextManager[object]:
        """A *process* span of pulled messages; see ``gantrymq.aio.PullConsumer.processing``."""
        return self._client.processing(messages)

    def pull_raw(
        self, queue: MessageQueue, offset: int, max_count: int, max_bytes: int, selection: Filter = EVERYTHING
    ) -> RawPull:
        """Like ``pull``, with the records undecoded; see ``gantrymq.aio.PullConsumer.pull_raw``."""
        return self._call(self._client.pull_raw, queue, offset, max_count, max_bytes, selection)

    def pull_raw_each(
        self, wanted: Sequence[tuple[MessageQueue, int, int]], max_bytes: int, selection: Filter = EVERYTHING
    ) -> list[RawPull | GantryError]:
        """``pull_raw`` of several queues at the same time; see ``gantrymq.aio.PullConsumer.pull_raw_each``."""
        return self._call(self._client.pull_raw_each, wanted, max_bytes, selection)

    def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Offset of the oldest message that still exists."""
        return self._call(self._client.min_offset, queue)

    def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Offset that the next message will get."""
        return self._call(self._client.max_offset, queue)

    def min_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueOffset]:
        """``min_offset`` of many queues, asked at the same time."""
        return self._call(self._client.min_offsets, checked_queues(queues))

    def max_offsets(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, QueueOffset]:
        """``max_offset`` of many queues, asked at the same time."""
        return self._call(self._client.max_offsets, checked_queues(queues))

    def offset_by_time(self, queue: MessageQueue, timestamp_ms: int) -> QueueOffset:
        """Offset of the first message stored at ``timestamp_ms`` or later; the end when there is none."""
        return self._call(self._client.offset_by_time, queue, timestamp_ms)

    def earliest_store_time(self, queue: MessageQueue) -> int:
        """When the oldest message was stored, ms since 1970; negative when the queue is empty."""
        return self._call(self._client.earliest_store_time, queue)

    def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """The group's stored progress; None when it has none."""
        return self._call(self._client.committed, queue)

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Store the group's progress: all messages below ``offset`` are consumed."""
        self._call(self._client.commit, queue, offset)


class LitePullConsumer(Blocking["lite_pull_consumer.LitePullConsumer"]):
    """A consumer that is polled; see ``gantrymq.aio.LitePullConsumer``. Only one thread may poll."""

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Iterable[str],
        from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
        outside: Outside | None = None,
        **settings: Unpack[LitePullSettings],
    ) -> None:
        """``from_where``: where the group begins in a new queue. ``settings``: fields of LitePullConfig."""
        self._got: list[MessageView] = []
        """The result of the last poll that was not interrupted. A later poll that was interrupted may have taken
        messages that the program never received."""
        super().__init__(
            lite_pull_consumer.LitePullConsumer(
                group, name_servers=name_servers, from_where=from_where, outside=outside, **settings
            )
        )

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> Self:
        """Share the queues of ``topic`` with the group; see ``gantrymq.aio.LitePullConsumer.subscribe``. Call it
        before ``start``."""
        self._client.subscribe(topic, tags, sql=sql)
        return self

    def assign(self, queues: Iterable[MessageQueue], tags: str = "*", *, sql: str | None = None) -> None:
        """Read exactly these queues from now on; see ``gantrymq.aio.LitePullConsumer.assign``."""
        chosen = checked_queues(queues)

        async def work() -> None:
            await self._client.assign(chosen, tags, sql=sql)

        self._call(work)

    def poll(self, timeout_ms: int | None = None) -> list[MessageView]:
        """Return some messages of one queue, or an empty list when none arrived in time; see
        ``gantrymq.aio.LitePullConsumer.poll``.

        An interrupted ``poll`` has taken no messages: the next ``poll`` returns them.
        """
        got = self._got

        async def work() -> list[MessageView]:
            self._client.give_back_last(unless=got)
            return await self._client.poll(timeout_ms)

        self._got = batch = self._call(work)
        return batch

    def processing(self, messages: MessageView | Sequence[MessageView]) -> AbstractContextManager[object]:
        """A *process* span of polled messages; see ``gantrymq.aio.LitePullConsumer.processing``."""
        return self._client.processing(messages)

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues this consumer reads now."""
        return self._client.assigned

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that may be read, freshly asked."""
        return self._call(self._client.queues, topic)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Return no messages of these queues until ``resume``."""
        self._call(self._client.pause, checked_queues(queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Return messages of these queues again."""
        self._call(self._client.resume, checked_queues(queues))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at ``offset``; see ``gantrymq.aio.LitePullConsumer.seek``."""
        self._call(self._client.seek, queue, offset)

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the oldest message that still exists."""
        self._call(self._client.seek_to_begin, queue)

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue with the next message that arrives."""
        self._call(self._client.seek_to_end, queue)

    def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> QueueOffset:
        """Offset of the first message stored at ``timestamp_ms`` or later; the end when there is none."""
        return self._call(self._client.offset_for_timestamp, queue, timestamp_ms)

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Store the progress; see ``gantrymq.aio.LitePullConsumer.commit``."""
        got = self._got

        async def work() -> None:
            self._client.give_back_last(unless=got)
            await self._client.commit(offsets)

        self._call(work)

    def committed(self, queue: MessageQueue) -> QueueOffset | None:
        """The group's stored progress; None when it has none."""
        return self._call(self._client.committed, queue)


class PushConsumer(Blocking["push_consumer.PushConsumer"]):
    """Delivers messages to a listener, in threads; see ``gantrymq.aio.PushConsumer``.

    ``start`` returns when this consumer has joined its group. From then on the listener gets messages, until
    ``close``. An ``async def`` listener runs on the client's own thread.
    """

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Iterable[str],
        listener: MessageListener,
        from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
        outside: Outside | None = None,
        **settings: Unpack[PushSettings],
    ) -> None:
        """``from_where``: where the group begins in queues it has never read. ``settings``: fields of PushConfig."""
        super().__init__(
            push_consumer.PushConsumer(
                group, name_servers=name_servers, listener=listener, from_where=from_where, outside=outside, **settings
            )
        )

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> Self:
        """Read ``topic``; ``tags``: ``"*"`` for all messages, or ``"A || B"``; or ``sql``: an SQL92 expression; see
        ``gantrymq.aio.PushConsumer.subscribe``. Call it before ``start``."""
        self._client.subscribe(topic, tags, sql=sql)
        return self

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues this member reads now, retry topic included."""
        return self._client.assigned


class SimpleConsumer(Blocking["simple_consumer.SimpleConsumer"]):
    """Receives messages and acknowledges each of them; see ``gantrymq.aio.SimpleConsumer``. Share one among all
    threads: any number of them may receive at the same time."""

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Iterable[str],
        from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
        outside: Outside | None = None,
        **settings: Unpack[SimpleSettings],
    ) -> None:
        """``from_where``: LAST_OFFSET or FIRST_OFFSET; where the group begins in a queue that it has never read.
        ``settings``: fields of SimpleConfig."""
        super().__init__(
            simple_consumer.SimpleConsumer(
                group, name_servers=name_servers, from_where=from_where, outside=outside, **settings
            )
        )

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> Self:
        """Receive messages of ``topic``, from now on; see ``gantrymq.aio.SimpleConsumer.subscribe``."""
        self._change(partial(self._client.subscribe, topic, tags, sql=sql))
        return self

    def unsubscribe(self, topic: str) -> Self:
        """Receive no messages of ``topic`` any more; see ``gantrymq.aio.SimpleConsumer.unsubscribe``."""
        self._change(partial(self._client.unsubscribe, topic))
        return self

    def _change(self, change: Callable[[], object]) -> None:
        """Before the start here, and then on the event loop, to which the subscriptions belong."""

        async def work() -> None:
            change()

        if self._started or self._closed:
            self._call(work)
        else:
            self._check_process()
            change()

    @property
    def subscriptions(self) -> dict[str, str]:
        """The expression of each topic that is subscribed."""
        return self._client.subscriptions

    def receive(self, max_message_num: int, invisible_duration_ms: int) -> list[MessageView]:
        """Up to ``max_message_num`` messages of one topic, which are invisible to others for ``invisible_duration_ms``;
        see ``gantrymq.aio.SimpleConsumer.receive``.

        An interrupted ``receive`` has taken no messages: what a broker has given by then is visible again at once.
        """
        got: list[MessageView] = []

        async def work() -> list[MessageView]:
            got.extend(await self._client.receive(max_message_num, invisible_duration_ms))
            return got

        try:
            return self._call(work)
        except BaseException:
            if (opened := self._portal) is not None:
                opened.post(self._client.give_back, got)
            raise

    def ack(self, message: MessageView) -> None:
        """The message is consumed and does not come again; see ``gantrymq.aio.SimpleConsumer.ack``."""
        self._call(self._client.ack, message)

    def change_invisible_duration(self, message: MessageView, invisible_duration_ms: int) -> None:
        """The message comes again after another time, or at once; see
        ``gantrymq.aio.SimpleConsumer.change_invisible_duration``."""
        self._call(self._client.change_invisible_duration, message, invisible_duration_ms)

    def processing(self, messages: MessageView | Sequence[MessageView]) -> AbstractContextManager[object]:
        """A *process* span of received messages; see ``gantrymq.aio.SimpleConsumer.processing``."""
        return self._client.processing(messages)


class LiteSimpleConsumer(Blocking["lite_simple_consumer.LiteSimpleConsumer"]):
    """Receives messages of lite topics and acknowledges each of them; see ``gantrymq.aio.LiteSimpleConsumer``. Share
    one among all threads."""

    def __init__(
        self,
        group: str,
        topic: str,
        *,
        name_servers: str | Iterable[str],
        outside: Outside | None = None,
        **settings: Unpack[SimpleSettings],
    ) -> None:
        """``topic``: the one below which the lite topics are. ``settings``: fields of SimpleConfig, but ``orderly``."""
        super().__init__(
            lite_simple_consumer.LiteSimpleConsumer(
                group, topic, name_servers=name_servers, outside=outside, **settings
            )
        )

    @property
    def lite_topics(self) -> frozenset[str]:
        """Those that are subscribed; see ``gantrymq.aio.LiteSimpleConsumer.lite_topics``."""
        return self._client.lite_topics

    def subscribe_lite(self, lite_topic: str) -> None:
        """Receive messages of a lite topic; see ``gantrymq.aio.LiteSimpleConsumer.subscribe_lite``."""
        self._call(self._client.subscribe_lite, lite_topic)

    def unsubscribe_lite(self, lite_topic: str) -> None:
        """Receive no more messages of a lite topic; see ``gantrymq.aio.LiteSimpleConsumer.unsubscribe_lite``."""
        self._call(self._client.unsubscribe_lite, lite_topic)

    def receive(self, max_message_num: int, invisible_duration_ms: int) -> list[MessageView]:
        """Up to ``max_message_num`` messages, which are invisible to others for ``invisible_duration_ms``; see
        ``gantrymq.aio.LiteSimpleConsumer.receive``. An interrupted ``receive`` has taken no messages."""
        got: list[MessageView] = []

        async def work() -> list[MessageView]:
            got.extend(await self._client.receive(max_message_num, invisible_duration_ms))
            return got

        try:
            return self._call(work)
        except BaseException:
            if (opened := self._portal) is not None:
                opened.post(self._client.give_back, got)
            raise

    def ack(self, message: MessageView) -> None:
        """The message is consumed and does not come again; see ``gantrymq.aio.LiteSimpleConsumer.ack``."""
        self._call(self._client.ack, message)

    def change_invisible_duration(self, message: MessageView, invisible_duration_ms: int) -> None:
        """The message comes again after another time, or at once; see
        ``gantrymq.aio.LiteSimpleConsumer.change_invisible_duration``."""
        self._call(self._client.change_invisible_duration, message, invisible_duration_ms)
