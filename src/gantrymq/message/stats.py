"""A statistic of a broker, as VIEW_BROKER_STATS_DATA asks for it. Source: BrokerStatsData, BrokerStatsItem."""

from __future__ import annotations

import msgspec

from gantrymq.message.numbers import Long


class BrokerStatsItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One window of time."""

    sum: Long = 0
    tps: float = 0.0
    """Per second."""
    avgpt: float = 0.0
    """The average amount each time that something was counted, for example messages per pull."""


class BrokerStatsData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A statistic over three windows of time."""

    stats_minute: BrokerStatsItem = BrokerStatsItem()
    stats_hour: BrokerStatsItem = BrokerStatsItem()
    stats_day: BrokerStatsItem = BrokerStatsItem()
