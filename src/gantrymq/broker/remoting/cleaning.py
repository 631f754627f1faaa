"""Cleaning at the request of a tool: 306, 316, 329."""

from __future__ import annotations

from gantrymq.broker.operations.cleaning import Cleaning
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response


class CleaningHandler:
    """What retention does, now."""

    def __init__(self, cleaning: Cleaning) -> None:
        self._cleaning = cleaning

    def expired_queues(self, session: ClientSession, command: Command) -> bytes:
        """CLEAN_EXPIRED_CONSUMEQUEUE."""
        self._cleaning.expired_queues()
        return encode_response(command, ResponseCode.SUCCESS)

    def unused_topics(self, session: ClientSession, command: Command) -> bytes:
        """CLEAN_UNUSED_TOPIC."""
        self._cleaning.unused_topics()
        return encode_response(command, ResponseCode.SUCCESS)

    def expired_log(self, session: ClientSession, command: Command) -> bytes:
        """DELETE_EXPIRED_COMMITLOG."""
        self._cleaning.expired_log()
        return encode_response(command, ResponseCode.SUCCESS)
