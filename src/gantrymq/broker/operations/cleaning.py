"""Cleaning at the request of an operator. Source: AdminBrokerProcessor."""

from __future__ import annotations

import logging

from gantrymq.broker.registries.topics import Topics
from gantrymq.broker.upkeep.retention import Retention
from gantrymq.errors import StoreError
from gantrymq.message.lite_topics import is_lite_queue, parent_of
from gantrymq.store.message_store import MessageStore

log = logging.getLogger("gantrymq.broker")


class Cleaning:
    """What retention does, now."""

    def __init__(self, store: MessageStore, topics: Topics, retention: Retention) -> None:
        self._store = store
        self._topics = topics
        self._retention = retention

    def expired_queues(self) -> None:
        """Delete files of queues that name only deleted messages."""
        self._store.drop_queue_files()

    def unused_topics(self) -> None:
        """Delete the queues whose topic does not exist."""
        for topic in self._store.topics():
            owner = parent_of(topic) if is_lite_queue(topic) else topic
            if not self._topics.exists(owner) and not self._topics.is_system(topic):
                self._store.delete_topic(topic, _ended)

    def expired_log(self) -> None:
        """Delete log files that are old enough, at any hour."""
        self._retention.run_now()


def _ended(error: StoreError | None) -> None:
    if error is not None:
        log.error("queues without a topic stay: %s", error)
