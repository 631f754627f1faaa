"""Finding messages by key and by place: 12, 33. Source: QueryMessageProcessor; wire-protocol.md 2.3.2."""

from __future__ import annotations

from gantrymq.errors import RequestRejected
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.pull import ViewMessage
from gantrymq.protocol.stored_message import encode_stored
from gantrymq.remoting.server import Session
from gantrymq.store.message_store import MessageStore


class QueryProcessor:
    """Handles VIEW_MESSAGE_BY_ID."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    def view(self, session: Session, command: Command) -> bytes:
        offset = command.header(ViewMessage).offset
        message = self._store.read(offset)
        if message is None:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
        return encode_response(command, ResponseCode.SUCCESS, body=encode_stored(message))
