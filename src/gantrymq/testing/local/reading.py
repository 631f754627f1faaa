"""What is in the broker of a local cluster. Belongs to its loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gantrymq.message.message import MessageView
from gantrymq.protocol.stored_message import scan, to_view
from gantrymq.testing.local.servers import Servers

READ_AT_ONCE: Final = 1024
READ_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A half message that is neither committed nor rolled back."""

    transaction_id: str
    topic: str
    producer_group: str
    checks: int
    """How often the broker has asked a producer about it."""


async def messages(servers: Servers, topic: str) -> list[MessageView]:
    """All messages that consumers of a topic can get, in the order in which they were stored."""
    store, found = servers.running.store, []
    for queue_id in [queue_id for name, queue_id in store.queues() if name == topic]:
        offset, end = store.queue_range(topic, queue_id)
        while offset < end:
            got = store.get(topic, queue_id, offset, READ_AT_ONCE, READ_BYTES)
            found += [to_view(record, servers.broker_name) for record in scan(got.data)]
            offset = max(got.next_offset, offset + 1)
    return sorted(found, key=lambda view: view.log_offset)


async def open_transactions(servers: Servers) -> list[OpenTransaction]:
    """The oldest first."""
    return [
        OpenTransaction(half.unique_key, half.real_topic, half.group, half.times_asked)
        for half in servers.running.coordinator.table
    ]
