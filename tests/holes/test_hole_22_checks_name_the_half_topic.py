"""Hole 22: the header of a check names a system topic.

Clients copy the topic into their answer, and a broker with access control checks the permission for it. So a client
that may publish to the user's topic may not end its transactions. Apache 5.5.0 names the half topic, 4.9.7 names none.
Ours names the real topic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gantrymq.broker.remoting import client_session
from gantrymq.message.system_topics import HALF
from gantrymq.protocol.headers.transaction import CheckTransactionState
from tests.holes.case import Apache, Case, Mutant, Observed
from tests.holes.stage import Stage

TRIES = 5


async def _asked(stage: Stage) -> Observed:
    topic, producer = await stage.topic(), await stage.producer()
    halves = await producer.halves(topic, TRIES)
    await stage.until(lambda: all(producer.checks_of(half) for half in halves), "every half is checked")
    named = [check.header.topic for check in producer.checks]
    return Observed(sum(name not in (None, topic) for name in named), len(named), f"names {set(named)}")


def _half_topic(patch: pytest.MonkeyPatch) -> None:
    def header(**fields: Any) -> CheckTransactionState:
        return CheckTransactionState(**fields | {"topic": HALF})

    patch.setattr(client_session, "CheckTransactionState", header)


CASES = [
    Case(
        "the topic in a check", _asked, (Mutant("the real topic in the header", _half_topic),),
        {"4.9.7": Apache.NEVER, "5.5.0": Apache.ALWAYS},
    ),
]  # fmt: skip


def test_hole_22_checks_name_the_half_topic(played: Callable[[], None]) -> None:
    played()
