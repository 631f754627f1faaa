"""An operator moves a group to other offsets of a topic.

With ``useServerSideResetOffset`` the broker stores the new offsets, and every member learns of them from the answer to
its next pull. Without it, as in 4.x, the members are notified and commit the offsets themselves. Source:
AdminBrokerProcessor.resetOffsetInner, Broker2Client.resetOffset; docs/protocol.md#resetting-offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.pushes import OffsetReset
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.registries import Registries
from gantrymq.message.queues import MessageQueue

ALL_QUEUES: Final = -1


class Queues(Protocol):
    """Where queues begin and end."""

    def queue_range(self, topic: str, queue_id: int) -> tuple[int, int]: ...

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int) -> int: ...


@dataclass(frozen=True, slots=True)
class ResetOrder:
    """The place to which a group is moved."""

    topic: str
    group: str
    timestamp_ms: int
    """With the first message stored at or after this time, ms since 1970; negative: at the end."""
    force: bool = True
    """False: only backwards; counts only without ``useServerSideResetOffset``."""
    queue_id: int | None = None
    """Only this queue; None or ALL_QUEUES: every one."""
    offset: int | None = None
    """With ``queue_id``: go on exactly here; None or negative: by the time."""


class Resets:
    """Sets groups back or forth."""

    def __init__(
        self,
        config: LiveConfig,
        queues: Queues,
        registries: Registries,
        release: Callable[[str, str], None],
    ) -> None:
        """``release``: answers the pulls of a group on a topic that wait for a message."""
        self._config = config
        self._queues = queues
        self._topics = registries.topics
        self._groups = registries.groups
        self._consumers = registries.consumers
        self._offsets = registries.offsets
        self._release = release

    def reset(self, order: ResetOrder) -> dict[MessageQueue, int]:
        """The new offset of every queue that was reset."""
        config = self._topics.get(order.topic)
        if config is None:
            raise Refused(Refusal.TOPIC_UNKNOWN, f"Topic {order.topic} does not exist")
        if self._groups.get(order.group) is None:
            raise Refused(Refusal.GROUP_UNKNOWN, f"Group {order.group} does not exist")
        if self._config.groups.use_server_side_reset_offset:
            return self._by_broker(order, config.read_queue_nums)
        return self._by_members(order, config.write_queue_nums)

    def _by_queue(self, topic: str, offsets: dict[int, int]) -> dict[MessageQueue, int]:
        return {MessageQueue(topic, self._config.identity.broker_name, number): at for number, at in offsets.items()}

    def _at(self, order: ResetOrder, queue_id: int) -> int:
        if order.timestamp_ms < 0:
            return self._queues.queue_range(order.topic, queue_id)[1]
        return self._queues.offset_by_time(order.topic, queue_id, order.timestamp_ms)

    def _by_broker(self, order: ResetOrder, queues: int) -> dict[MessageQueue, int]:
        only = ALL_QUEUES if order.queue_id is None else order.queue_id
        if only == ALL_QUEUES:
            offsets = {number: self._at(order, number) for number in range(queues)}
        elif order.offset is None or order.offset < 0:
            offsets = {only: self._at(order, only)}
        else:
            first, end = self._queues.queue_range(order.topic, only)
            if not first <= order.offset <= end:
                raise Refused(
                    Refusal.FAILED,
                    f"Target offset {order.offset} not in consume queue range [{first}-{end}]",
                )
            offsets = {only: order.offset}
        for queue_id, offset in offsets.items():
            self._offsets.reset(order.group, order.topic, queue_id, offset)
        # Who waits for a message would hear of it only when one comes.
        self._release(order.group, order.topic)
        return self._by_queue(order.topic, offsets)

    def _by_members(self, order: ResetOrder, queues: int) -> dict[MessageQueue, int]:
        group = self._consumers.get(order.group)
        if group is None:
            raise Refused(
                Refusal.CONSUMER_OFFLINE, f"Consumer not online, so can not reset offset, group: {order.group}"
            )
        offsets: dict[int, int] = {}
        for queue_id in range(queues):
            before = self._offsets.get(order.group, order.topic, queue_id)
            if before is None:
                raise Refused(Refusal.FAILED, f"the group {order.group} has no offset on queue {queue_id} yet")
            wanted = self._at(order, queue_id)
            offsets[queue_id] = wanted if order.force or wanted < before else before
        found = self._by_queue(order.topic, offsets)
        reset = OffsetReset(order.group, order.topic, order.timestamp_ms, order.force, found)
        for member in group.members.values():
            member.connection.reset_offsets(reset)
        return found
