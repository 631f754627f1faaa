"""Finding messages by key and by place: 12, 33. Source: QueryMessageProcessor."""

from __future__ import annotations

from typing import Final

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.pull import QueryMessage, QueryMessageAnswer, ViewMessage
from gantrymq.protocol.stored_message import encode_stored
from gantrymq.store.message_store import MessageStore

UNIQUE_KEY_MAX: Final = 32
"""Messages answered to a query by unique key, as in Apache's broker (defaultQueryMaxNum)."""
KEY_MAX: Final = 64
"""Messages answered to a query by key at most; the answer must fit into a frame."""
ANSWER_MAX_BYTES: Final = 8 * 1024 * 1024


class QueryProcessor:
    """Handles QUERY_MESSAGE and VIEW_MESSAGE_BY_ID."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def query(self, session: ClientSession, command: Command) -> bytes:
        header = command.header(QueryMessage)
        # The newest come first. As in Apache's broker a plain query also finds unique keys, and the other way round.
        count = UNIQUE_KEY_MAX if header.unique_key_query else max(1, min(header.max_num, KEY_MAX))
        found = self._store.query(header.topic, header.key, count, header.begin_timestamp, header.end_timestamp)
        last = max((message.store_timestamp for message in found), default=0)
        answer = QueryMessageAnswer(
            index_last_update_timestamp=last,
            index_last_update_phyoffset=max((message.log_offset for message in found), default=0),
        )
        if not found:
            return encode_response(
                command, ResponseCode.QUERY_NOT_FOUND, answer,
                remark="can not find message, maybe time range not correct",
            )  # fmt: skip
        records: list[bytes] = []
        size = 0
        for message in found:
            record = encode_stored(message)
            size += len(record)
            if records and size > ANSWER_MAX_BYTES:
                break
            records.append(record)
        return encode_response(command, ResponseCode.SUCCESS, answer, b"".join(records))

    def view(self, session: ClientSession, command: Command) -> bytes:
        offset = command.header(ViewMessage).offset
        message = self._store.read(offset)
        if message is None:
            raise Refused(Refusal.FAILED, f"can not find message by the offset, {offset}")
        return encode_response(command, ResponseCode.SUCCESS, body=encode_stored(message))
