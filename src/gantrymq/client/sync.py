"""The blocking clients: the same names and signatures as in ``gantrymq.aio``, without ``await``.

Every method may be called from any thread, also at the same time. A call that is interrupted (Ctrl-C, a signal handler
that raises) is given up and the interrupt is raised at once; what was sent may have been executed, and the client can
be used as before. Two calls are different: a ``start`` that is interrupted closes the client, and a ``close`` that is
interrupted goes on without its caller. In a forked child all calls raise UsedAfterFork: create new clients there.
``close`` in a child does nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar, Unpack

from gantrymq.client import (
    admin,
    lite_pull_consumer,
    portal,
    producer,
    pull_consumer,
    push_consumer,
    transaction_producer,
)
from gantrymq.client.admin import DEFAULT_QUEUES, READ_WRITE, QueueStats
from gantrymq.client.blocking_call import Work
from gantrymq.client.config import (
    ClientSettings,
    LitePullSettings,
    ProducerSettings,
    PullSettings,
    PushSettings,
    TransactionProducerSettings,
)
from gantrymq.client.consume_pool import MessageListener
from gantrymq.client.endpoint import Doors
from gantrymq.client.listener import TransactionListener, is_async
from gantrymq.client.ordering import QueueSelector, by_hash
from gantrymq.client.pulling import DEFAULT_MAX_BYTES
from gantrymq.client.results import PullResult, RawPull, SendResult, TransactionSendResult
from gantrymq.errors import Closed, UsedAfterFork
from gantrymq.message.message import Message, MessageView
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.bodies.heartbeat import ConsumeFromWhere
from gantrymq.protocol.bodies.route import ClusterInfo, TopicRoute

T = TypeVar("T")
FOREVER_MS: Final = 2**63 - 1


class _Client(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def drop(self) -> None: ...

    @property
    def client_id(self) -> str: ...


C = TypeVar("C", bound=_Client)


class Blocking(Generic[C]):
    """What all blocking clients share: the portal they call through, their life, and the process they belong to."""

    def __init__(self, client: C) -> None:
        self._client = client
        self._portal: portal.Portal | None = None
        self._started = False
        self._closed = False
        self._pid = os.getpid()

    def start(self) -> None:
        """Begin; the same as entering a ``with`` block. May be called again. One that fails closes the client."""
        self._check_process()
        if self._closed:
            raise Closed(f"this {type(self).__name__} is closed; create a new one")
        if self._started:
            return
        portal.check_thread()
        try:
            if self._portal is None:
                self._portal = portal.acquire(self._client, self._client.drop)
            self._portal.call(self._client.start)
            self._started = True
        except Exception:
            self.close()
            raise
        except BaseException:
            self._close_soon()
            raise

    def close(self) -> None:
        """Refuse new calls, wait for those in flight (``close_timeout_ms`` at most; then they raise Closed), leave.

        May be called again; does nothing in a forked child, whose parent still uses the connections. One that is
        interrupted goes on without its caller; called again, it waits for that. Raises RuntimeError in a callback on
        the client's own thread, and leaves the client open.
        """
        if os.getpid() != self._pid:
            return
        door = self._portal
        if door is None:
            self._closed = True
            return
        portal.check_thread()
        try:
            self._closed = True
            with contextlib.suppress(Closed):  # somebody else has closed it, and the loop has ended
                door.call(door.shut, self._client.close, self._client)
        except BaseException:
            self._close_soon()
            raise
        self._portal = None
        door.join()

    def _close_soon(self) -> None:
        """Have it closed, and wait for nothing."""
        if os.getpid() != self._pid:
            return
        self._closed = True
        door = self._portal
        if door is None:
            portal.release(self._client)
        else:
            door.post(door.begin_to_shut, self._client.close, self._client)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._close_soon()  # also when the interrupt comes behind the start
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise UsedAfterFork(
                f"this {type(self).__name__} belongs to the parent process; create a new one after the fork"
            )

    def _door(self) -> portal.Portal:
        self._check_process()
        door = self._portal
        if door is None or self._closed:
            name = type(self).__name__
            raise Closed(
                f"this {name} is closed; create a new one"
                if self._closed
                else f"this {name} is not started; call start() or use it in a `with` block"
            )
        return door

    @property
    def client_id(self) -> str:
        """How brokers name this client; empty before the first connection."""
        return self._client.client_id

    def _call(self, work: Work[T], *arguments: Any) -> T:
        return self._door().call(work, *arguments)


class Producer(Blocking["producer.Producer"]):
    """Sends messages of one producer group; see ``gantrymq.aio.Producer``. Share one among all threads."""

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Iterable[str],
        doors: Doors | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        """``settings``: fields of ProducerConfig."""
        super().__init__(producer.Producer(group, name_servers=name_servers, doors=doors, **settings))

    @property
    def group(self) -> str:
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
            # A copy: our caller goes on, and may change the object for its next message before we get to it.
            message = message.with_properties({**message.properties})
        return self._door().submit(self._client.send, message, queue, timeout_ms)

    def send_oneway(self, message: Message, queue: MessageQueue | None = None) -> None:
        """Send without an answer; see ``gantrymq.aio.Producer.send_oneway``."""
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

    def reply(self, request: MessageView, body: bytes | str, timeout_ms: int | None = None) -> SendResult:
        """Answer a request that a consumer got; see ``gantrymq.aio.Producer.reply``."""
        return self._call(self._client.reply, request, body, timeout_ms)

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
        doors: Doors | None = None,
        **settings: Unpack[TransactionProducerSettings],
    ) -> None:
        """``listener``: runs and checks local transactions. ``settings``: fields of TransactionProducerConfig."""
        inner = transaction_producer.TransactionProducer(
            group, name_servers=name_servers, listener=listener, doors=doors, **settings
        )
        Blocking.__init__(self, inner)

    def send_in_transaction(
        self, message: Message, arg: Any = None, *, transaction_id: str | None = None
    ) -> TransactionSendResult:
        """Send a half message, run the listener's ``execute_local_transaction(message, arg)`` in this thread, end it.

        Checks run in threads of their own (``check_threads``). An exception in the listener means UNKNOWN and is in
        the result. An interrupt (KeyboardInterrupt, SystemExit), in the listener or anywhere else in this call, is
        raised, after the broker was told UNKNOWN; it will ask back. Otherwise as
        ``gantrymq.aio.TransactionProducer.send_in_transaction``.
        """
        client, door = self._client, self._door()
        if is_async(client.listener.execute_local_transaction):

            async def work() -> TransactionSendResult:
                return await client.send_in_transaction(message, arg, transaction_id=transaction_id)

            return door.call(work)
        run = transaction_producer.LocalRun()
        try:
            return door.converse(client.transact_in_caller, run, message, arg, transaction_id)
        except Closed as error:
            if run.half is None or run.outcome is None:
                raise
            return transaction_producer.undecided(run.half, run.outcome, error)


class PullConsumer(Blocking["pull_consumer.PullConsumer"]):
    """Reads messages by queue and offset; see ``gantrymq.aio.PullConsumer``."""

    def __init__(
        self,
        group: str | None = None,
        *,
        name_servers: str | Iterable[str],
        doors: Doors | None = None,
        **settings: Unpack[PullSettings],
    ) -> None:
        """``group``: needed for ``committed`` and ``commit`` only. ``settings``: fields of PullConfig."""
        super().__init__(pull_consumer.PullConsumer(group, name_servers=name_servers, doors=doors, **settings))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that may be read, freshly asked."""
        return self._call(self._client.queues, topic)

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

    def pull_raw(self, queue: MessageQueue, offset: int, max_count: int, max_bytes: int) -> RawPull:
        """Like ``pull`` for every tag, with the records undecoded."""
        return self._call(self._client.pull_raw, queue, offset, max_count, max_bytes)

    def min_offset(self, queue: MessageQueue) -> QueueOffset:
        """Offset of the oldest message that is still there."""
        return self._call(self._client.min_offset, queue)

    def max_offset(self, queue: MessageQueue) -> QueueOffset:
        """Offset that the next message will get."""
        return self._call(self._client.max_offset, queue)

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
        """Store the group's progress: everything below ``offset`` is done."""
        self._call(self._client.commit, queue, offset)


class LitePullConsumer(Blocking["lite_pull_consumer.LitePullConsumer"]):
    """Gives messages when asked; see ``gantrymq.aio.LitePullConsumer``. One thread polls."""

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Iterable[str],
        from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
        doors: Doors | None = None,
        **settings: Unpack[LitePullSettings],
    ) -> None:
        """``from_where``: where the group begins in a new queue. ``settings``: fields of LitePullConfig."""
        self._got: list[MessageView] = []
        """What the last poll returned that was not interrupted. A later one that was may have taken messages, which
        nobody got."""
        super().__init__(
            lite_pull_consumer.LitePullConsumer(
                group, name_servers=name_servers, from_where=from_where, doors=doors, **settings
            )
        )

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> Self:
        """Share the queues of ``topic`` with the group; see ``gantrymq.aio.LitePullConsumer.subscribe``. Before
        ``start``."""
        self._client.subscribe(topic, tags, sql=sql)
        return self

    def assign(self, queues: Iterable[MessageQueue], tags: str = "*", *, sql: str | None = None) -> None:
        """Read exactly these queues from now on; see ``gantrymq.aio.LitePullConsumer.assign``."""
        chosen = list(queues)

        async def work() -> None:
            await self._client.assign(chosen, tags, sql=sql)

        self._call(work)

    def poll(self, timeout_ms: int | None = None) -> list[MessageView]:
        """Some messages of one queue; empty when none came in time; see ``gantrymq.aio.LitePullConsumer.poll``.

        One that is interrupted has taken nothing: the next one returns what it would have returned.
        """
        got = self._got

        async def work() -> list[MessageView]:
            self._client.give_back_last(unless=got)
            return await self._client.poll(timeout_ms)

        self._got = batch = self._call(work)
        return batch

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues this consumer reads now."""
        return self._client.assigned

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that may be read, freshly asked."""
        return self._call(self._client.queues, topic)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Give no messages of these queues until ``resume``."""
        self._call(self._client.pause, list(queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Give messages of these queues again."""
        self._call(self._client.resume, list(queues))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at ``offset``; see ``gantrymq.aio.LitePullConsumer.seek``."""
        self._call(self._client.seek, queue, offset)

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the oldest message that is still there."""
        self._call(self._client.seek_to_begin, queue)

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on with the next message that comes."""
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

    ``start`` returns when the group is joined; the listener then runs until ``close``. An ``async def`` listener runs
    on the client's own thread.
    """

    def __init__(
        self,
        group: str,
        *,
        name_servers: str | Iterable[str],
        listener: MessageListener,
        from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET,
        doors: Doors | None = None,
        **settings: Unpack[PushSettings],
    ) -> None:
        """``from_where``: where the group begins in queues it has never read. ``settings``: fields of PushConfig."""
        super().__init__(
            push_consumer.PushConsumer(
                group, name_servers=name_servers, listener=listener, from_where=from_where, doors=doors, **settings
            )
        )

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> Self:
        """Read ``topic``; ``tags``: ``"*"`` for all messages, or ``"A || B"``; or ``sql``: an SQL92 expression; see
        ``gantrymq.aio.PushConsumer.subscribe``. Before ``start``."""
        self._client.subscribe(topic, tags, sql=sql)
        return self

    @property
    def assigned(self) -> list[MessageQueue]:
        """The queues this member reads now, retry topic included."""
        return self._client.assigned


class Admin(Blocking["admin.Admin"]):
    """Questions and commands about the topics of a cluster; see ``gantrymq.aio.Admin``. Starts with its first call."""

    def __init__(
        self, name_servers: str | Iterable[str], *, doors: Doors | None = None, **settings: Unpack[ClientSettings]
    ) -> None:
        """``settings``: fields of ClientConfig."""
        super().__init__(admin.Admin(name_servers, doors=doors, **settings))

    def create_topic(
        self,
        topic: str,
        queues: int = DEFAULT_QUEUES,
        message_type: str | None = None,
        cluster: str | None = None,
        perm: int = READ_WRITE,
        order: bool = False,
        *,
        hide_messages: bool = False,
    ) -> None:
        """Make or change a topic; returns when the name servers know it; see ``gantrymq.aio.Admin.create_topic``."""

        async def work() -> None:
            await self._client.create_topic(
                topic, queues, message_type, cluster, perm, order, hide_messages=hide_messages
            )

        self._call(work)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove a topic with its messages."""
        self._call(self._client.delete_topic, topic, cluster)

    def topics(self) -> list[str]:
        """The names of all topics the name servers know, system topics included, sorted."""
        return self._call(self._client.topics)

    def route(self, topic: str) -> TopicRoute:
        """Which brokers hold a topic, in how many queues, and where they are."""
        return self._call(self._client.route, topic)

    def cluster_info(self) -> ClusterInfo:
        """Clusters, their brokers, and where those are."""
        return self._call(self._client.cluster_info)

    def queue_stats(self, topic: str) -> list[QueueStats]:
        """What every queue of a topic holds, in order."""
        return self._call(self._client.queue_stats, topic)

    @property
    def messages(self) -> Messages:
        """Finds single messages."""
        return Messages(self._client, self._door().call)

    def _door(self) -> portal.Portal:
        if self._portal is None and not self._closed:
            self.start()
        return super()._door()


class Messages:
    """Finds single messages; see ``gantrymq.client.admin.messages.Messages``."""

    def __init__(self, client: admin.Admin, call: Callable[..., Any]) -> None:
        self._client = client
        self._call = call

    def by_place_id(self, message_id: str) -> MessageView | None:
        """The message an offset message id names; None when it is gone."""
        found: MessageView | None = self._call(self._client.messages.by_place_id, message_id)
        return found

    def by_unique_key(self, topic: str, unique_key: str) -> list[MessageView]:
        """Messages with this UNIQ_KEY; more than one when a send was repeated."""
        found: list[MessageView] = self._call(self._client.messages.by_unique_key, topic, unique_key)
        return found

    def by_key(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = FOREVER_MS, count: int = 64
    ) -> list[MessageView]:
        """Messages with this word among their KEYS."""

        async def work() -> list[MessageView]:
            return await self._client.messages.by_key(topic, key, begin_ms=begin_ms, end_ms=end_ms, count=count)

        found: list[MessageView] = self._call(work)
        return found

    def at(self, queue: MessageQueue, offset: int) -> MessageView | None:
        """The message at a place; None when nothing lies there."""
        found: MessageView | None = self._call(self._client.messages.at, queue, offset)
        return found
