"""Which member of a consumer group reads which queue. This is a pure function: every member computes the same result
from the same lists.
"""

from __future__ import annotations

from collections.abc import Iterable

from gantrymq.message.queues import MessageQueue


def assign_averagely(
    client_id: str, client_ids: Iterable[str], queues: Iterable[MessageQueue]
) -> tuple[MessageQueue, ...]:
    """The contiguous block of ``queues`` that belongs to ``client_id``. The sizes of the blocks differ by one at most.

    Both lists are sorted in RocketMQ's order first, so that clients of all languages compute the same. A client that is
    not in the list gets nothing, because its heartbeat has not arrived yet. Source: AllocateMessageQueueAveragely;
    docs/protocol.md#sharing-queues.
    """
    members = sorted(set(client_ids))
    places = sorted(set(queues))
    if client_id not in members:
        return ()
    index = members.index(client_id)
    share, rest = divmod(len(places), len(members))
    # The first ``rest`` members take one queue more than the others.
    start = index * share + min(index, rest)
    return tuple(places[start : start + share + (1 if index < rest else 0)])
