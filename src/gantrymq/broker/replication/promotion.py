"""What a broker does once when it becomes primary of a log that another broker wrote.

Topics do not lie in the log. Those that were made in the last moment before the other one died may be missing here,
and a half message of such a topic could not be committed. So each topic that a message of the log belongs to is made.
A file says that the log is that of another broker, because a replica may be stopped and started again as primary.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from gantrymq.broker.registries.topics import Topics
from gantrymq.broker.replication.delayed_topics import delayed_places
from gantrymq.runtime.disk import read_whole, write_durably
from gantrymq.store.message_store import MessageStore
from gantrymq.transactions.table.open_halves import OpenHalf

log = logging.getLogger("gantrymq.broker.replication")

MARK: Final = "config/replica"
"""In the store: there while the log is that of another broker, or will be soon."""
JOINS: Final = b"joins"
"""Its content as long as the log is this broker's own: it was a primary, and its log is not compared yet."""


def is_of_another(store: MessageStore) -> bool:
    """Whether this broker was a replica when it ran last."""
    return store.file_disk.exists(store.path(MARK))


def joins(store: MessageStore) -> bool:
    """Whether this broker was a primary before, so that records which the new primary does not have are its own."""
    return is_of_another(store) and read_whole(store.file_disk, store.path(MARK)) == JOINS


def mark(store: MessageStore) -> None:
    """This broker is a replica now. Raises StoreError or OSError."""
    if not is_of_another(store):
        write_durably(store.file_disk, store.path(MARK), JOINS)


def mark_joined(store: MessageStore) -> None:
    """From now on the log is that of another broker. Raises StoreError or OSError."""
    if joins(store):
        write_durably(store.file_disk, store.path(MARK), b"")


def unmark(store: MessageStore) -> None:
    """The log is this broker's own: what a promotion has to do is done, and on the disk."""
    if is_of_another(store):
        store.file_disk.remove(store.path(MARK))
        store.file_disk.sync_dir(store.path("config"))


def take_over(store: MessageStore, topics: Topics, halves: Iterable[OpenHalf]) -> None:
    """Make the topics that are missing. ``halves``: those that are open. Raises StoreError."""
    made = topics.ensure_all(_topics_of(store, topics, halves))
    if made:
        names = ", ".join(sorted(topic.topic_name for topic in made))
        log.warning("made topics that the log names, and that had not come from the primary: %s", names)


def _topics_of(store: MessageStore, topics: Topics, halves: Iterable[OpenHalf]) -> dict[str, int]:
    """Topic to the number of queues that its messages need."""
    wanted: dict[str, int] = {}
    places = [*store.queues(), *delayed_places(store), *((half.real_topic, half.real_queue_id) for half in halves)]
    for topic, queue_id in places:
        if not topics.is_system(topic):
            wanted[topic] = max(wanted.get(topic, 0), queue_id + 1)
    return wanted
