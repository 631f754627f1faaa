"""Requests of Apache's tools and clients that this broker refuses, each with its reason.

Every other unknown code is answered in the same way without a reason. Source: RequestCode;
docs/protocol.md#requests-and-answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

_REASONS: Final[tuple[tuple[Iterable[int], str], ...]] = (
    (range(50, 54), "accounts are kept in plain_acl.yml (aclEnable), or made by `gantry user` (authenticationEnabled)"),
    ((354, 355), "this broker does not use RocksDB"),
    ((513,), "static topics are not available in this broker"),
    ((901, 902, 903, 905), "brokers in containers and acting masters are not available"),
    ((906, 908), "replicas follow by the default HA protocol only (docs/replication.md)"),
    ((1001, 1003, 1004, *range(1014, 1019)), "there is no controller: a group elects by itself (docs/election.md)"),
    ((1009, 1010), "there is no controller: elections follow the settings of each broker; use updateBrokerConfig"),
    ((1011,), "the record has nothing but the in-sync set, and a broker that is away leaves it by itself"),
    ((1012, 1013), "the number of a broker is its setting brokerId; only Apache's controller gives numbers"),
    (range(2001, 2005), "reading old messages is not limited in this broker, so there is nothing to configure"),
    (range(3001, 3011), "this broker has no users that tools manage; set authenticationEnabled=true"),
)


def refused_codes() -> Iterator[tuple[int, str]]:
    """(request code, reason)"""
    for codes, reason in _REASONS:
        for code in codes:
            yield code, reason
