"""From the death of a producer to the delivery of its committed messages, to the millisecond: the real broker and the
real client in virtual time. ``python3 run.py bench recovery`` measures the same with real processes.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gantrymq.simulation.run import _end
from gantrymq.simulation.workload import IMMUNITY_MS
from gantrymq.simulation.world import cluster as simulated
from gantrymq.simulation.world.cluster import START_GRACE_MS, Cluster

HALVES = 20
GRACE_MS = 500
WAYS_MS = 10
"""A few frames, at half a millisecond each, and the consumer's wake-up."""


def play(monkeypatch: pytest.MonkeyPatch, decisive: bool, scenario: Any, **settings: Any) -> Cluster:
    """Two services and a reader, and what ``story`` does with them."""
    monkeypatch.setattr(simulated, "DECISIVE", 1.0 if decisive else 0.0)
    cluster = Cluster.build(1, brokers=1, **settings)
    cluster.chances.unknown = 0.0

    async def whole() -> None:
        await cluster.start_name_server()
        await cluster.start_broker(cluster.brokers[0])
        await cluster.start_reader()
        for _ in range(2):
            await cluster.start_service()
        await asyncio.sleep(3)
        sender = cluster.services[0]
        for number in range(HALVES):
            # The row is committed, and the end that would say so never comes.
            sender.node.start(sender._order(f"unknown-commit-{number}", "unknown-commit"))
        await scenario(cluster)

    try:
        cluster.loop.run_until_complete(whole())
    finally:
        asyncio.set_event_loop(None)
        _end(cluster)
    assert cluster.errors == []
    return cluster


def times(cluster: Cluster, event: str) -> list[int]:
    return [found["at"] for found in cluster.history.events if found["event"] == event]


@pytest.mark.parametrize("alive_s", [0.05, 1.0, 3.0])
def test_a_committed_message_of_a_killed_producer_is_there_when_its_grace_is_over(
    monkeypatch: pytest.MonkeyPatch, alive_s: float
) -> None:
    async def scenario(cluster: Cluster) -> None:
        await asyncio.sleep(alive_s)
        cluster.kill(cluster.services[0].node)
        await asyncio.sleep(2)

    cluster = play(monkeypatch, True, scenario)
    killed_at = times(cluster, "gone")[0]
    delivered = times(cluster, "delivered")
    assert len(delivered) == HALVES
    assert killed_at + GRACE_MS <= min(delivered) <= max(delivered) <= killed_at + GRACE_MS + WAYS_MS
    assert len(times(cluster, "check")) == HALVES


@pytest.mark.parametrize("alive_s", [0.05, 1.0, 3.0])
def test_without_decisive_checkers_it_is_there_when_the_immunity_is_over(
    monkeypatch: pytest.MonkeyPatch, alive_s: float
) -> None:
    async def scenario(cluster: Cluster) -> None:
        await asyncio.sleep(alive_s)
        cluster.kill(cluster.services[0].node)
        await asyncio.sleep(10)

    cluster = play(monkeypatch, False, scenario)
    stored, delivered = times(cluster, "half"), times(cluster, "delivered")
    assert len(delivered) == HALVES
    assert min(stored) + IMMUNITY_MS - WAYS_MS <= min(delivered)
    assert max(delivered) <= max(stored) + IMMUNITY_MS + WAYS_MS, "no tick of an interval is waited for"
    assert len(times(cluster, "check")) == HALVES


@pytest.mark.parametrize("decisive", [True, False])
def test_nobody_is_asked_about_a_producer_that_lost_its_connections_and_lives(
    monkeypatch: pytest.MonkeyPatch, decisive: bool
) -> None:
    async def scenario(cluster: Cluster) -> None:
        for _ in range(6):
            await asyncio.sleep(0.55)
            cluster.network.break_connections(cluster.services[0].address)
        await asyncio.sleep(0.3)
        assert times(cluster, "check") == []
        await asyncio.sleep(2)

    cluster = play(monkeypatch, decisive, scenario)
    stored = times(cluster, "half")
    assert min(times(cluster, "check")) >= min(stored) + IMMUNITY_MS - WAYS_MS
    assert len(times(cluster, "delivered")) == HALVES


@pytest.mark.parametrize("decisive", [True, False])
def test_when_the_broker_dies_with_the_producer_its_sender_has_some_time_to_come_back(
    monkeypatch: pytest.MonkeyPatch, decisive: bool
) -> None:
    """What was open when a broker starts might be a living sender's that has not found it again."""
    revived_at: list[int] = []

    async def scenario(cluster: Cluster) -> None:
        await asyncio.sleep(0.5)
        cluster.kill(cluster.services[0].node)
        cluster.kill_broker(cluster.brokers[0])
        await cluster.revive(cluster.brokers[0])
        revived_at.append(times(cluster, "gone")[0])
        await asyncio.sleep(IMMUNITY_MS / 1000 + 3)

    cluster = play(monkeypatch, decisive, scenario)
    first = min(times(cluster, "check"))
    immune_until = min(times(cluster, "half")) + IMMUNITY_MS
    if decisive:
        assert revived_at[0] + START_GRACE_MS - WAYS_MS <= first < immune_until
    else:
        assert first >= immune_until - WAYS_MS, "a checker that is not decisive is never asked early"
    assert len(times(cluster, "delivered")) == HALVES
