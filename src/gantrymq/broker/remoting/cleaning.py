"""Making room when somebody asks for it: 306, 316, 329. Source: AdminBrokerProcessor."""

from __future__ import annotations

import logging

from gantrymq.broker.registries.topics import Topics
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.upkeep.housekeeping import Retention
from gantrymq.errors import StoreError
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.store.message_store import MessageStore

log = logging.getLogger("gantrymq.broker")


class CleaningProcessor:
    """What retention does, now."""

    def __init__(self, store: MessageStore, topics: Topics, retention: Retention) -> None:
        self._store = store
        self._topics = topics
        self._retention = retention

    def expired_queues(self, session: ClientSession, command: Command) -> bytes:
        """CLEAN_EXPIRED_CONSUMEQUEUE: files of queues that name only deleted messages."""
        self._store.drop_queue_files()
        return encode_response(command, ResponseCode.SUCCESS)

    def unused_topics(self, session: ClientSession, command: Command) -> bytes:
        """CLEAN_UNUSED_TOPIC: queues whose topic does not exist."""
        for topic in self._store.topics():
            if not self._topics.exists(topic) and not self._topics.is_system(topic):
                self._store.delete_topic(topic, _ended)
        return encode_response(command, ResponseCode.SUCCESS)

    def expired_log(self, session: ClientSession, command: Command) -> bytes:
        """DELETE_EXPIRED_COMMITLOG: log files that are old enough, at any hour."""
        self._retention.run_now()
        return encode_response(command, ResponseCode.SUCCESS)


def _ended(error: StoreError | None) -> None:
    if error is not None:
        log.error("queues without a topic stay: %s", error)
