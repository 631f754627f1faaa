"""Topics of delayed and timer messages, for a replica that becomes primary.

Their records lie in system topics until they are delivered, and name the topic and the queue they are for in their
properties. A topic that was made right before the primary died may not have come (``tables.py``), and then they could
not be delivered. So the records of the last minute are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gantrymq.message import properties
from gantrymq.message.system_topics import SCHEDULE, TIMER
from gantrymq.protocol.stored_message import scan
from gantrymq.store.message_store import MessageStore

WINDOW_MS: Final = 60_000
"""Tables come several times a second. So long they may have failed to come."""
READ_COUNT: Final = 256
READ_BYTES: Final = 1 << 20


def delayed_places(store: MessageStore) -> Iterator[tuple[str, int]]:
    """Topic and queue of each message that was delayed in the last minute of this log."""
    queues = [place for place in store.queues() if place[0] in (SCHEDULE, TIMER)]
    last = [store.store_time(topic, queue, store.queue_range(topic, queue)[1] - 1) or 0 for topic, queue in queues]
    begin_ms = max(last, default=0) - WINDOW_MS
    for topic, queue in queues:
        offset, end = int(store.offset_by_time(topic, queue, begin_ms)), store.queue_range(topic, queue)[1]
        while offset < end:
            found = store.get(topic, queue, offset, READ_COUNT, READ_BYTES)
            for record in scan(found.data, check=False):  # the store has compared the CRCs
                yield from _place(record.properties_text)
            if found.next_offset <= offset:
                break
            offset = found.next_offset


def _place(text: str) -> Iterator[tuple[str, int]]:
    topic, queue = properties.find(text, properties.REAL_TOPIC), properties.find(text, properties.REAL_QUEUE_ID)
    if topic and queue is not None and queue.isdigit():
        yield topic, int(queue)
