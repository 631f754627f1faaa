"""Where queues begin and end, and how far groups have read: 14, 15, 29 to 32, 43.

Source: ConsumerManageProcessor, AdminBrokerProcessor; docs/protocol.md#consumer-offsets.
"""

from __future__ import annotations

from typing import Final

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.json_file import pretty
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.broker.registries.topics import Topics
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers import consumer, pull
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import Boundary

RECENT_BYTES: Final = 256 * 1024 * 1024
"""A first message this close to the end of the log counts as recent (see query_offset)."""


class PositionProcessor:
    """Offsets of queues and groups."""

    def __init__(self, store: MessageStore, topics: Topics, groups: Groups, offsets: ConsumerOffsets) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets

    def query_offset(self, session: ClientSession, command: Command) -> bytes:
        """QUERY_CONSUMER_OFFSET. A group without an offset on a young queue that still has its first, recent message
        starts at 0 whatever it asked for, like Apache's: else a new group would miss what was sent while it started.
        """
        header = command.header(consumer.QueryConsumerOffset)
        offset = self._offsets.get(header.consumer_group, header.topic, header.queue_id)
        if offset is None:
            if header.set_zero_if_not_found is False or not self._starts_at_zero(header.topic, header.queue_id):
                raise Refused(Refusal.NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")
            offset = 0
        return encode_response(command, ResponseCode.SUCCESS, pull.OffsetAnswer(offset=offset))

    def _starts_at_zero(self, topic: str, queue_id: int) -> bool:
        first, end = self._store.queue_range(topic, queue_id)
        if first > 0:
            return False
        if end == 0:
            return True
        entry = self._store.entry(topic, queue_id, 0)
        return entry is not None and self._store.max_log_offset - entry.log_offset <= RECENT_BYTES

    def update_offset(self, session: ClientSession, command: Command) -> bytes:
        """UPDATE_CONSUMER_OFFSET."""
        header = command.header(consumer.UpdateConsumerOffset)
        if self._groups.find(header.consumer_group) is None:
            raise Refused(Refusal.GROUP_UNKNOWN, f"Group {header.consumer_group} not exist!")
        if not self._topics.exists(header.topic):
            raise Refused(Refusal.TOPIC_UNKNOWN, f"Topic {header.topic} not exist!")
        if header.queue_id < 0 or header.commit_offset < 0:
            raise Refused(Refusal.PARAMETER_INVALID, "queueId and commitOffset must not be negative")
        if (header.consumer_group, header.topic, header.queue_id) in self._offsets.resets:
            return encode_response(command, ResponseCode.SUCCESS, remark="Offset has been previously reset")
        self._offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        return encode_response(command, ResponseCode.SUCCESS)

    def all_offsets(self, session: ClientSession, command: Command) -> bytes:
        """GET_ALL_CONSUMER_OFFSET."""
        return encode_response(command, ResponseCode.SUCCESS, body=pretty(self._offsets.content()).encode())

    def max_offset(self, session: ClientSession, command: Command) -> bytes:
        """GET_MAX_OFFSET."""
        header = command.header(pull.GetMaxOffset)
        end = self._store.queue_range(header.topic, header.queue_id)[1]
        return encode_response(command, ResponseCode.SUCCESS, pull.OffsetAnswer(offset=end))

    def min_offset(self, session: ClientSession, command: Command) -> bytes:
        """GET_MIN_OFFSET."""
        header = command.header(pull.GetMinOffset)
        first = self._store.queue_range(header.topic, header.queue_id)[0]
        return encode_response(command, ResponseCode.SUCCESS, pull.OffsetAnswer(offset=first))

    def search_offset(self, session: ClientSession, command: Command) -> bytes:
        """SEARCH_OFFSET_BY_TIMESTAMP."""
        header = command.header(pull.SearchOffset)
        upper = (header.boundary_type or "").upper() == "UPPER"
        offset = self._store.offset_by_time(
            header.topic, header.queue_id, header.timestamp, Boundary.UPPER if upper else Boundary.LOWER
        )
        return encode_response(command, ResponseCode.SUCCESS, pull.OffsetAnswer(offset=offset))

    def earliest_store_time(self, session: ClientSession, command: Command) -> bytes:
        """GET_EARLIEST_MSG_STORETIME; -1 when the queue is empty."""
        header = command.header(pull.GetEarliestStoreTime)
        first, end = self._store.queue_range(header.topic, header.queue_id)
        time = self._store.store_time(header.topic, header.queue_id, first) if first < end else None
        answer = pull.StoreTimeAnswer(timestamp=-1 if time is None else time)
        return encode_response(command, ResponseCode.SUCCESS, answer)
