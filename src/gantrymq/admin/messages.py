"""Single messages: found by id, key or place, and who has got them. Source: DefaultMQAdminExtImpl."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from gantrymq.admin.asking import Asking
from gantrymq.admin.consumers import Consumers
from gantrymq.admin.groups import Groups
from gantrymq.client.consuming.pulling import views
from gantrymq.errors import ConfigError, RemoteProtocolError, RequestRejected
from gantrymq.message import properties
from gantrymq.message.heartbeat import MessageModel
from gantrymq.message.message import MessageView, StoredMessage
from gantrymq.message.queues import LogOffset, MessageQueue
from gantrymq.message.tags import parse_tag_expression
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.consumer import QueryConsumerOffset
from gantrymq.protocol.headers.pull import OffsetAnswer, QueryMessage, ViewMessage
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.protocol.stored_message import decode_record, scan, to_view

READERS_MAX: Final = 50
"""Groups that are asked how they stand to a message."""
FOREVER_MS: Final = 2**63 - 1


class Delivered(enum.StrEnum):
    """How a group stands to one message."""

    DONE = "done"
    """The group's offset has passed it: it was consumed, or sent to the group's retry topic."""
    WAITING = "waiting"
    FILTERED = "filtered"
    """The group does not subscribe to its tag."""
    BROADCAST = "broadcast"
    """Every member keeps its own progress; the broker does not know it."""
    OFFLINE = "nobody online"
    """It waits, and the group has no member."""


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """One group and one message."""

    group: str
    state: Delivered
    consumer_offset: int | None


class Messages:
    """Finds messages."""

    def __init__(self, asking: Asking, groups: Groups, consumers: Consumers) -> None:
        self._asking = asking
        self._groups = groups
        self._consumers = consumers

    async def by_place_id(self, message_id: str, body_max: int | None = None) -> MessageView | None:
        """The message an offset message id names; None when it is gone, or its broker is none of this cluster.
        ``body_max``, here and below: bytes of a body that are wanted (``MessageView.body_cut``); None: all.

        Raises ConfigError when it is no such id.
        """
        try:
            address, log_offset = parse_offset_message_id(message_id)
        except RemoteProtocolError as error:
            raise ConfigError(str(error)) from error
        # The id contains the IP address that the broker had when it stored the message. The broker may be known by
        # a host name, or may have another address since; so the record itself says whether it is the one.
        masters = (await self._asking.masters()).items()
        for name, place in sorted(masters, key=lambda master: master[1] != address):
            record = await self._record_at(place, log_offset, message_id)
            if record is not None and record.store_host == address:
                return to_view(record, name, body_max)
        return None

    async def _record_at(self, address: str, log_offset: LogOffset, message_id: str) -> StoredMessage | None:
        """The record that begins at this place of a broker's log, if one does."""
        try:
            answer = await self._asking.ask(
                address, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(offset=log_offset), what=f"message {message_id}"
            )
            return decode_record(answer.body)
        except RemoteProtocolError:
            return None
        except RequestRejected as error:
            if error.code == ResponseCode.SYSTEM_ERROR:
                return None
            raise

    async def by_unique_key(self, topic: str, unique_key: str, body_max: int | None = None) -> list[MessageView]:
        """Messages with this UNIQ_KEY; more than one when a send was repeated."""
        found = await self.query(topic, unique_key, unique=True, body_max=body_max)
        return [view for view in found if view.properties.get(properties.UNIQ_KEY) == unique_key]

    async def by_key(
        self,
        topic: str,
        key: str,
        *,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
        count: int = 64,
        body_max: int | None = None,
    ) -> list[MessageView]:
        """Messages with this word among their KEYS."""
        found = await self.query(topic, key, begin_ms=begin_ms, end_ms=end_ms, count=count, body_max=body_max)
        return [view for view in found if key in view.keys]

    async def at(self, queue: MessageQueue, offset: int, body_max: int | None = None) -> MessageView | None:
        """The message at a place; None when nothing lies there."""
        addresses = await self._asking.chosen(queue.broker_name)
        raw = await self._asking.pull(addresses[queue.broker_name], queue, offset, 1)
        return next((view for view in views(raw, queue, body_max=body_max) if view.queue_offset == offset), None)

    async def query(
        self,
        topic: str,
        key: str,
        *,
        unique: bool = False,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
        count: int = 64,
        body_max: int | None = None,
    ) -> list[MessageView]:
        """What the indexes of all brokers have for a key; hashes may collide, so check what comes."""
        found: list[MessageView] = []
        for name, address in (await self._asking.masters()).items():
            records = await self.query_broker(
                address, topic, key, unique=unique, begin_ms=begin_ms, end_ms=end_ms, count=count
            )
            found += [to_view(record, name, body_max) for record in records if record.topic == topic]
        return sorted(found, key=lambda view: view.store_timestamp)

    async def query_broker(
        self,
        address: str,
        topic: str,
        key: str,
        *,
        unique: bool = False,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
        count: int = 64,
    ) -> list[StoredMessage]:
        """The same from one broker, undecoded."""
        header = QueryMessage(
            topic=topic, key=key, max_num=count, begin_timestamp=begin_ms, end_timestamp=end_ms,
            index_type="U" if unique else "K", unique_key_query=unique,
        )  # fmt: skip
        answer = await self._asking.ask(
            address, RequestCode.QUERY_MESSAGE, header, what=f"messages of {topic!r} with key {key!r}",
            accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND), timeout_ms=10_000,
        )  # fmt: skip
        return list(scan(answer.body, check=False)) if answer.code == ResponseCode.SUCCESS else []

    async def readers(self, message: MessageView, most: int = READERS_MAX) -> tuple[list[Reader], int]:
        """How the groups that read the topic stand to a message; ``most`` of them are asked about, and the number says
        how many are not."""
        groups = await self._groups.reading(message.topic)
        return [await self._reader(group, message) for group in groups[:most]], max(len(groups) - most, 0)

    async def _reader(self, group: str, message: MessageView) -> Reader:
        queue = message.queue
        addresses = await self._asking.chosen(queue.broker_name)
        header = QueryConsumerOffset(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False,
            bname=queue.broker_name,
        )  # fmt: skip
        answer = await self._asking.ask(
            addresses[queue.broker_name], RequestCode.QUERY_CONSUMER_OFFSET, header, what=f"offset of group {group!r}",
            accept=(ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
        )  # fmt: skip
        offset = answer.header(OffsetAnswer).offset if answer.code == ResponseCode.SUCCESS else None
        online = await self._consumers.connections(group)
        wanted = None if online is None else online.subscription_table.get(queue.topic)
        tags = parse_tag_expression(wanted.sub_string) if wanted and wanted.expression_type in (None, "", "TAG") else ()
        if online is not None and online.message_model == MessageModel.BROADCASTING:
            state = Delivered.BROADCAST
        elif tags and (message.tags or "") not in tags:
            state = Delivered.FILTERED
        elif offset is not None and offset > message.queue_offset:
            state = Delivered.DONE
        else:
            state = Delivered.OFFLINE if online is None else Delivered.WAITING
        return Reader(group=group, state=state, consumer_offset=offset)
