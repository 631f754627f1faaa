"""Answer to VIEW_BROKER_STATS_DATA. Source: BrokerStatsData, BrokerStatsItem."""

from __future__ import annotations

from gantrymq.protocol.bodies.body import Body
from gantrymq.protocol.numbers import Long


class BrokerStatsItem(Body, frozen=True, kw_only=True):
    """One window of time."""

    sum: Long = 0
    tps: float = 0.0
    """Per second."""
    avgpt: float = 0.0
    """The average amount each time that something was counted, for example messages per pull."""


class BrokerStatsData(Body, frozen=True, kw_only=True):
    """A statistic over three windows of time."""

    stats_minute: BrokerStatsItem = BrokerStatsItem()
    stats_hour: BrokerStatsItem = BrokerStatsItem()
    stats_day: BrokerStatsItem = BrokerStatsItem()
