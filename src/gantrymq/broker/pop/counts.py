"""What happened to popped messages since the broker started, counted for metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gantrymq.broker.pop.check_point import Ack, CheckPoint
from gantrymq.broker.pop.ledger import OpenPoint
from gantrymq.message.system_topics import normal_topic

CHECK_POINT: Final = "CK"
ACK: Final = "ACK"
"""Source: PopReviveMessageType."""


@dataclass(frozen=True, slots=True)
class PopCounts:
    """By topic, which is the user's also for messages that came back, and group."""

    written: Counter[tuple[str, str, str, bool]] = field(default_factory=Counter)
    """Records of the revive topic, by their type too, and whether they were stored."""
    revived: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """Check points whose time was over before all was acknowledged, by revive queue too."""
    returned: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Messages that were put into a retry topic."""

    def put(self, entry: CheckPoint | Ack, stored: bool) -> None:
        """A record of the revive topic was stored, or could not be."""
        if isinstance(entry, CheckPoint):
            topic, group, kind = entry.topic, entry.group, CHECK_POINT
        else:
            topic, group, kind = entry.key[0], entry.key[1], ACK
        self.written[normal_topic(topic, group), group, kind, stored] += 1

    def came_back(self, points: Iterable[tuple[OpenPoint, int]]) -> None:
        """Check points were revived, each with so many messages."""
        for opened, messages in points:
            topic, group = normal_topic(opened.point.topic, opened.point.group), opened.point.group
            self.revived[topic, group, opened.revive_queue] += 1
            if messages:
                self.returned[topic, group] += messages
