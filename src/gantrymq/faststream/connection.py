"""The clients behind one broker of FastStream: its producer, the consumers of its subscribers, and transactions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from faststream.exceptions import IncorrectState, SetupError

from gantrymq.admin import Admin
from gantrymq.client.connection.namespaces import with_namespace
from gantrymq.client.message_listener import MessageListener
from gantrymq.client.producer import Producer
from gantrymq.client.push_consumer import PushConsumer
from gantrymq.errors import GantryError, RequestRejected, RouteNotFound
from gantrymq.faststream.polling import Poller, Subscription
from gantrymq.message.heartbeat import ConsumeFromWhere
from gantrymq.message.message import Message

if TYPE_CHECKING:
    from gantrymq.sql.async_transactions import AsyncTransactions

log = logging.getLogger("gantrymq.faststream")

NOT_CONNECTED: Final = (
    "the broker is not connected: publish inside `async with broker:`, or after `await broker.start()`"
)
STOPPED: Final = "the broker is stopped, and sends nothing more; start it again, or publish before it stops"


class Connection:
    """Opened by the broker's ``connect``, closed by its ``stop``."""

    def __init__(
        self,
        name_servers: str | Iterable[str],
        producer_group: str,
        settings: Mapping[str, Any],
        transactions: AsyncTransactions[Any] | None,
        declare_topics: bool,
    ) -> None:
        self.name_servers, self.settings = name_servers, settings
        self._group, self._transactions, self._declare = producer_group, transactions, declare_topics
        self._producer: Producer | None = None
        self._why_not = NOT_CONNECTED
        self._turn = asyncio.Lock()
        self._subscriptions: dict[str, tuple[Subscription, int]] = {}

    @property
    def producer(self) -> Producer:
        """Raises IncorrectState before ``open`` and after ``close``."""
        if self._producer is None:
            raise IncorrectState(self._why_not)
        return self._producer

    async def open(self, close_timeout_ms: int) -> Producer:
        """May be called again."""
        async with self._turn:
            if self._producer is None:
                self._producer = await self._started({"close_timeout_ms": close_timeout_ms, **self.settings})
            return self._producer

    async def _started(self, settings: dict[str, Any]) -> Producer:
        producer = Producer(self._group, name_servers=self.name_servers, **settings)
        await producer.start()
        try:
            if self._transactions is not None:
                await self._transactions.start()
        except BaseException:
            await producer.close()
            raise
        return producer

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        self._turn = asyncio.Lock()  # the next start may be on another event loop
        if producer is not None:
            self._why_not = STOPPED
            if self._transactions is not None:
                await self._transactions.close()
            await producer.close()

    def send_in(self, session: Any, message: Message, order_key: str | None) -> None:
        """Send a message with the transaction of a session or connection. Raises ConfigError when that takes none."""
        from gantrymq.sql import send

        self.check()  # the broker must run: its transactions end the message
        send(session, message, order_key=order_key)

    def check(self) -> None:
        """Raises IncorrectState before ``open`` and after ``close``."""
        self.producer  # noqa: B018 - it raises

    async def read(
        self, group: str, subscription: Subscription, listener: MessageListener | None, from_where: ConsumeFromWhere,
        settings: Mapping[str, Any],
    ) -> PushConsumer | Poller:  # fmt: skip
        """A consumer that has begun to read: one that calls ``listener``, or one that is asked.

        Raises Unreachable, RequestRejected and ConfigError."""
        topic, tags, sql = subscription
        await self.declare(topic)
        consumer: PushConsumer | Poller
        if listener is None:
            consumer = Poller(group, self.name_servers, settings, from_where, subscription)
        else:
            consumer = PushConsumer(
                group, name_servers=self.name_servers, listener=listener, from_where=from_where, **settings
            ).subscribe(topic, tags, sql=sql)
        await consumer.start()
        return consumer

    async def ping(self) -> bool:
        """Whether a name server answers."""
        try:
            async with Admin(self.name_servers, **self.settings) as admin:
                await admin.cluster_info()
        except GantryError:
            return False
        return True

    async def declare(self, topic: str) -> None:
        """Create a topic that no name server knows, unless the broker refuses it."""
        if not self._declare:
            return
        topic = with_namespace(self.settings.get("namespace"), topic)
        async with Admin(self.name_servers, **self.settings) as admin:
            try:
                await admin.route(topic)
            except RouteNotFound:
                try:
                    await admin.create_topic(topic)
                except RequestRejected as error:
                    log.warning("the topic %s could not be created, and is read once it exists: %s", topic, error)

    def joined(self, group: str, subscription: Subscription) -> None:
        """A subscriber becomes a member of a group. Raises SetupError when another one has a different subscription,
        because a group has one: brokers would deliver to neither reliably."""
        known, members = self._subscriptions.get(group, (subscription, 0))
        if known != subscription:
            raise SetupError(
                f"two subscribers share the group {group!r}, with different subscriptions: {_text(known)} and "
                f"{_text(subscription)}. All members of a group need the same one; give each subscriber its own group"
            )
        self._subscriptions[group] = (known, members + 1)

    def left(self, group: str) -> None:
        known, members = self._subscriptions[group]
        if members > 1:
            self._subscriptions[group] = (known, members - 1)
        else:
            del self._subscriptions[group]


def _text(subscription: Subscription) -> str:
    topic, tags, sql = subscription
    return f"{topic!r} with {'tags ' + repr(tags) if sql is None else 'sql ' + repr(sql)}"
