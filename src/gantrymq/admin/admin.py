"""The admin client: topics, and the ways to the other areas. Source: DefaultMQAdminExtImpl."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Unpack

import msgspec

from gantrymq.admin.asking import Asking, Failed
from gantrymq.admin.topic_changes import TopicChange, TopicChanges, Wanted
from gantrymq.admin.topic_state import TopicState
from gantrymq.client.config import ClientConfig, settings_of
from gantrymq.client.connection.endpoint import Endpoint
from gantrymq.client.connection.lifetime import Lifetime
from gantrymq.client.connection.outside import Outside, default_outside
from gantrymq.client.connection.routes import subscribe_queues
from gantrymq.client.keywords import ClientSettings
from gantrymq.client.settings_rules import Flag, Whole, read_setting
from gantrymq.errors import ConfigError, RouteNotFound, Unreachable
from gantrymq.message import system_topics
from gantrymq.message.arguments import shown, whole_number
from gantrymq.message.queues import MessageQueue, QueueOffset
from gantrymq.protocol.bodies.route import ClusterInfo, TopicRoute
from gantrymq.protocol.bodies.topics import TopicList
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, Header
from gantrymq.protocol.headers.nameserver import DeleteTopicInNameServer
from gantrymq.protocol.headers.pull import GetMaxOffset, GetMinOffset, OffsetAnswer
from gantrymq.protocol.headers.topics import TopicOnly

if TYPE_CHECKING:
    from gantrymq.admin.access import Access
    from gantrymq.admin.body_search import BodySearch
    from gantrymq.admin.brokers import Brokers
    from gantrymq.admin.browsing import Browsing
    from gantrymq.admin.consumers import Consumers
    from gantrymq.admin.explanations import Explanations
    from gantrymq.admin.groups import Groups
    from gantrymq.admin.messages import Messages
    from gantrymq.admin.overviews import Overviews
    from gantrymq.admin.resending import Resending
    from gantrymq.admin.traces import Traces
    from gantrymq.admin.transactions import Transactions

DEFAULT_QUEUES: Final = 8
PERMS: Final = (2, 4, 6)
QUEUES: Final = Whole(1, 65_535, "queues")
READ_WRITE: Final = 6
"""4 read, 2 write."""
_VISIBLE_WITHIN_MS: Final = 5_000
"""How long a new topic may take to become visible at the name servers."""


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue holds."""

    queue: MessageQueue
    min_offset: QueueOffset
    max_offset: QueueOffset

    @property
    def messages(self) -> int:
        """How many messages the broker still has in this queue."""
        return self.max_offset - self.min_offset


class Admin(Lifetime):
    """Questions and commands about the topics of a cluster.

    Use it in an ``async with`` block. Belongs to the event loop and process it was started in.
    """

    def __init__(
        self,
        name_servers: str | Iterable[str],
        *,
        outside: Outside | None = None,
        failed: Failed | None = None,
        **settings: Unpack[ClientSettings],
    ) -> None:
        """``failed``: told of each question that failed, e.g. to count them. ``settings``: fields of ClientConfig."""
        self._config = settings_of(ClientConfig, name_servers, settings)
        self._endpoint = Endpoint(type(self).__name__, self._config, default_outside() if outside is None else outside)
        self._asking = Asking(self._endpoint, failed)

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses of the name servers that this client was told of."""
        return tuple(self._config.name_servers)

    async def create_topic(
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
        """Create a topic on every master (of ``cluster``), or change it; returns when the name servers know it.

        ``perm``: 6 read and write, 4 read, 2 write. ``order``: mark it as an ordered topic. ``message_type``: which
        messages it accepts, e.g. ``"TRANSACTION"``; default: all, or for an existing topic what it accepts now.

        An existing topic is changed to exactly these settings, at once and without a question. Only one kind of change
        needs confirmation: fewer queues, or no permission to read, would hide messages from groups that have not read
        them. This raises MessagesHidden, and nothing is changed, unless ``hide_messages`` is true.

        Raises MessageIllegal, ConfigError, RequestRejected or Unreachable.
        """
        self._endpoint.check_usable()
        system_topics.check_topic(topic)
        read_setting("queues", queues, QUEUES)
        read_setting("order", order, Flag())
        if whole_number(perm) not in PERMS:
            raise ConfigError(f"perm must be one of {', '.join(map(str, PERMS))}, not {shown(perm)}")
        wanted = Wanted(read_queues=queues, write_queues=queues, perm=perm, order=order, message_type=message_type)
        changes = await self.topic_changes.plan(topic, wanted, Wanted(), cluster)
        if not hide_messages:
            await self.topic_changes.check_readable(topic, changes)
        await self.change_topic(topic, changes)

    async def change_topic(self, topic: str, changes: Sequence[TopicChange]) -> None:
        """Make changes that ``topic_changes.plan`` made out; returns when the name servers know them."""
        self._endpoint.check_usable()
        await self.topic_changes.apply(topic, changes)
        await self._until_visible(topic, {change.broker for change in changes})

    async def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove a topic with its messages from every master (of ``cluster``) and from the name servers."""
        self._endpoint.check_usable()
        what = f"deletion of topic {topic!r}"
        for address in (await self._asking.masters(cluster)).values():
            await self._command(address, RequestCode.DELETE_TOPIC_IN_BROKER, TopicOnly(topic=topic), what)
        header = DeleteTopicInNameServer(topic=topic, cluster_name=cluster)
        for address in self._config.name_servers:
            await self._command(address, RequestCode.DELETE_TOPIC_IN_NAMESRV, header, what)

    async def topics(self) -> list[str]:
        """The names of all topics the name servers know, system topics included, sorted.

        Raises Unreachable when they know none because no broker is registered: its topics are unknown then.
        """
        self._endpoint.check_usable()
        answer = await self._asking.ask_name_server(
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, what="list of topics"
        )
        names = sorted(TopicList.decode(answer.body).topic_list)
        if not names:
            await self._asking.masters()
        return names

    async def route(self, topic: str) -> TopicRoute:
        """Which brokers hold a topic, in how many queues, and where they are. Raises RouteNotFound."""
        self._endpoint.check_usable()
        return await self._endpoint.routes.fetch(topic)

    async def cluster_info(self) -> ClusterInfo:
        """Clusters, their brokers, and where those are."""
        self._endpoint.check_usable()
        return await self._asking.cluster()

    async def queue_stats(self, topic: str) -> list[QueueStats]:
        """What every queue of a topic holds, in order."""
        route = await self.route(topic)
        return [await self._stats(queue) for queue in subscribe_queues(topic, route)]

    # Areas.

    @cached_property
    def topic_state(self) -> TopicState:
        """What brokers say about a topic: settings, offsets."""
        return TopicState(self._asking)

    @cached_property
    def topic_changes(self) -> TopicChanges:
        """What a change of a topic would do."""
        return TopicChanges(self._asking, self.topic_state)

    @cached_property
    def brokers(self) -> Brokers:
        """Brokers, their figures and their settings."""
        from gantrymq.admin.brokers import Brokers

        return Brokers(self._asking)

    @cached_property
    def access(self) -> Access:
        """Users and what they may do."""
        from gantrymq.admin.access import Access

        return Access(self._asking)

    @cached_property
    def groups(self) -> Groups:
        """Consumer groups and their settings."""
        from gantrymq.admin.groups import Groups

        return Groups(self._asking)

    @cached_property
    def consumers(self) -> Consumers:
        """Consumer groups at work, and live producers."""
        from gantrymq.admin.consumers import Consumers

        return Consumers(self._asking)

    @cached_property
    def messages(self) -> Messages:
        """Single messages."""
        from gantrymq.admin.messages import Messages

        return Messages(self._asking, self.groups, self.consumers)

    @cached_property
    def browsing(self) -> Browsing:
        """The messages of a topic, one after the other."""
        from gantrymq.admin.browsing import Browsing

        return Browsing(self._asking, self.topic_state)

    @cached_property
    def body_search(self) -> BodySearch:
        """Messages by what is in their bodies."""
        from gantrymq.admin.body_search import BodySearch

        return BodySearch(self._asking, self.topic_state)

    @cached_property
    def overviews(self) -> Overviews:
        """All topics, groups and clients at a glance."""
        from gantrymq.admin.overviews import Overviews

        return Overviews(self._asking)

    @cached_property
    def resending(self) -> Resending:
        """Messages sent again."""
        from gantrymq.admin.resending import Resending

        return Resending(self._asking)

    @cached_property
    def traces(self) -> Traces:
        """What clients recorded of messages."""
        from gantrymq.admin.traces import Traces

        return Traces(self.messages, self.browsing)

    @cached_property
    def transactions(self) -> Transactions:
        """Transactions, open and ended."""
        from gantrymq.admin.transactions import Transactions

        return Transactions(self._asking, self.brokers, self.consumers, self.messages)

    @cached_property
    def explanations(self) -> Explanations:
        """What happened to transactions, event by event."""
        from gantrymq.admin.explanations import Explanations

        return Explanations(self._asking, self.transactions)

    # The parts.

    async def _stats(self, queue: MessageQueue) -> QueueStats:
        address = self._endpoint.routes.readable(queue.broker_name)
        if address is None:
            raise Unreachable(queue.broker_name, "the name servers know no address of that broker")
        low = GetMinOffset(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
        high = GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id, committed=True, bname=queue.broker_name)
        what = f"offsets of {queue}"
        first = await self._command(address, RequestCode.GET_MIN_OFFSET, low, what)
        last = await self._command(address, RequestCode.GET_MAX_OFFSET, high, what)
        return QueueStats(
            queue=queue,
            min_offset=QueueOffset(first.header(OffsetAnswer).offset),
            max_offset=QueueOffset(last.header(OffsetAnswer).offset),
        )

    async def _until_visible(self, topic: str, brokers: set[str]) -> None:
        deadline = self._endpoint.clock.monotonic() + _VISIBLE_WITHIN_MS / 1000
        while self._endpoint.clock.monotonic() < deadline:
            try:
                route = await self._endpoint.routes.fetch(topic)
            except RouteNotFound:
                pass
            else:
                if brokers <= {data.broker_name for data in route.queue_datas}:
                    return
            await self._endpoint.clock.sleep(0.02)

    async def _command(self, address: str, code: RequestCode, header: Header, what: str) -> Command:
        return await self._asking.ask(address, code, header, what=what)
