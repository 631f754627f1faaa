"""Finding messages by key and by position: 12, 33. Source: QueryMessageProcessor."""

from __future__ import annotations

from gantrymq.broker.operations.queries import KeyQuery, Queries
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.pull import QueryMessage, QueryMessageAnswer, ViewMessage


class QueryHandler:
    """Handles QUERY_MESSAGE and VIEW_MESSAGE_BY_ID."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def query(self, session: ClientSession, command: Command) -> bytes:
        header = command.header(QueryMessage)
        found = self._queries.by_key(
            session,
            KeyQuery(
                header.topic, header.key, header.max_num, header.begin_timestamp, header.end_timestamp,
                bool(header.unique_key_query),
            ),
        )  # fmt: skip
        answer = QueryMessageAnswer(
            index_last_update_timestamp=found.last_store_timestamp, index_last_update_phyoffset=found.last_log_offset
        )
        if not found.records:
            return encode_response(
                command, ResponseCode.QUERY_NOT_FOUND, answer,
                remark="can not find message, maybe time range not correct",
            )  # fmt: skip
        return encode_response(command, ResponseCode.SUCCESS, answer, b"".join(found.records))

    def view(self, session: ClientSession, command: Command) -> bytes:
        record = self._queries.by_log_offset(session, command.header(ViewMessage).offset)
        return encode_response(command, ResponseCode.SUCCESS, body=record)
