"""The bounds of queues and the offsets of groups: 14, 15, 29 to 32, 43.

Source: ConsumerManageProcessor, AdminBrokerProcessor; docs/protocol.md#consumer-offsets.
"""

from __future__ import annotations

from gantrymq.broker.operations.positions import Positions
from gantrymq.broker.registries.json_file import pretty
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers import consumer, pull
from gantrymq.store.values import Boundary


class PositionHandler:
    """Handles questions for offsets, and commits."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions

    def query_offset(self, session: ClientSession, command: Command) -> bytes:
        """QUERY_CONSUMER_OFFSET."""
        header = command.header(consumer.QueryConsumerOffset)
        offset = self._positions.of_group(
            header.consumer_group, header.topic, header.queue_id,
            zero_if_new=header.set_zero_if_not_found is not False,
        )  # fmt: skip
        return _offset(command, offset)

    def update_offset(self, session: ClientSession, command: Command) -> bytes:
        """UPDATE_CONSUMER_OFFSET."""
        header = command.header(consumer.UpdateConsumerOffset)
        committed = self._positions.commit(
            header.consumer_group, header.topic, header.queue_id, header.commit_offset
        )  # fmt: skip
        if committed:
            return encode_response(command, ResponseCode.SUCCESS)
        return encode_response(command, ResponseCode.SUCCESS, remark="Offset has been previously reset")

    def all_offsets(self, session: ClientSession, command: Command) -> bytes:
        """GET_ALL_CONSUMER_OFFSET."""
        return encode_response(command, ResponseCode.SUCCESS, body=pretty(self._positions.of_all_groups()).encode())

    def max_offset(self, session: ClientSession, command: Command) -> bytes:
        """GET_MAX_OFFSET."""
        header = command.header(pull.GetMaxOffset)
        return _offset(command, self._positions.end(header.topic, header.queue_id))

    def min_offset(self, session: ClientSession, command: Command) -> bytes:
        """GET_MIN_OFFSET."""
        header = command.header(pull.GetMinOffset)
        return _offset(command, self._positions.begin(header.topic, header.queue_id))

    def search_offset(self, session: ClientSession, command: Command) -> bytes:
        """SEARCH_OFFSET_BY_TIMESTAMP."""
        header = command.header(pull.SearchOffset)
        upper = (header.boundary_type or "").upper() == "UPPER"
        boundary = Boundary.UPPER if upper else Boundary.LOWER
        return _offset(
            command, self._positions.by_time(header.topic, header.queue_id, header.timestamp, boundary)
        )  # fmt: skip

    def earliest_store_time(self, session: ClientSession, command: Command) -> bytes:
        """GET_EARLIEST_MSG_STORETIME; -1 when the queue is empty."""
        header = command.header(pull.GetEarliestStoreTime)
        time = self._positions.earliest_store_time(header.topic, header.queue_id)
        answer = pull.StoreTimeAnswer(timestamp=-1 if time is None else time)
        return encode_response(command, ResponseCode.SUCCESS, answer)


def _offset(command: Command, offset: int) -> bytes:
    return encode_response(command, ResponseCode.SUCCESS, pull.OffsetAnswer(offset=offset))
