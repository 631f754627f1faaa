"""Which member of a group reads which queue, when the broker divides the queues. Pure.

Source: QueryAssignmentProcessor, AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from gantrymq.message.pop import RequestMode
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.files.request_modes import GroupRequestMode

ANY_QUEUE: Final = -1

Share: TypeAlias = Callable[[str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]
"""(member, all queues, all members) to its queues."""


def averagely(member: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
    """Neighbouring queues; the first members get one more when it does not come out even."""
    if member not in members:
        return []
    index = members.index(member)
    each, more = divmod(len(queues), len(members))
    start = index * each + min(index, more)
    return list(queues[start : start + each + (index < more)])


def by_circle(member: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
    """One queue each in turn."""
    return list(queues[members.index(member) :: len(members)]) if member in members else []


STRATEGIES: Final[Mapping[str, Share]] = {"AVG": averagely, "AVG_BY_CIRCLE": by_circle}
"""Names as clients send them."""


def assign(
    strategy: Share, member: str, queues: Sequence[MessageQueue], members: Sequence[str], mode: GroupRequestMode
) -> list[MessageQueue]:
    """The queues of ``member``. In POP mode several members can read one queue: ``mode.pop_share_queue_num`` further
    members share the queues of each.
    """
    queues, members = sorted(queues), sorted(members)
    if mode.mode is RequestMode.PULL:
        return strategy(member, queues, members)
    share = mode.pop_share_queue_num
    if share <= 0 or share >= len(members) - 1:
        return sorted({MessageQueue(queue.topic, queue.broker_name, ANY_QUEUE) for queue in queues})
    if member not in members or not queues:
        return []
    index = members.index(member)
    if len(members) > len(queues):
        return [queues[index % len(queues)]]
    found: dict[MessageQueue, None] = {}
    for step in range(share + 1):
        found |= dict.fromkeys(strategy(members[(index + step) % len(members)], queues, members))
    return list(found)
