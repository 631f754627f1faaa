"""Looking at real name servers and brokers, over sockets, and judging what was seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gantrymq.admin import Admin
from gantrymq.doctor import Facts, Finding, findings_of, look_at_cluster
from gantrymq.doctor.brokers import clock_of, without_secrets
from gantrymq.doctor.facts import ClusterFacts
from gantrymq.runtime.clock import SystemClock
from tests.support.brokers import Cluster, cluster
from tests.support.consumers import Consumer
from tests.support.down import BROKER, WAYS, down, register
from tests.support.silent import accepts_and_never_answers

LIMIT_S = 120
QUIET: dict[str, Any] = {"auto_create_topic_enable": False, "auto_create_subscription_group": False}
"""Settings about which there is nothing to say."""


class Shifted(SystemClock):
    """A clock that somebody set wrong."""

    def __init__(self, by_ms: int) -> None:
        self.by_ms = by_ms

    def wall_ms(self) -> int:
        return super().wall_ms() + self.by_ms


Story = Coroutine[Any, Any, None]


def address_at(running: Cluster) -> str:
    assert running.name_server is not None
    return running.name_server.address


@asynccontextmanager
async def started(root: Path, **settings: Any) -> AsyncIterator[tuple[Cluster, Admin]]:
    async with (
        cluster(root, with_name_server=True, **{**QUIET, **settings}) as running,
        Admin(address_at(running), call_timeout_ms=5_000) as admin,
    ):
        yield running, admin


async def seen(admin: Admin) -> tuple[ClusterFacts, dict[str, Finding]]:
    """The facts, and the findings by rule."""
    found = await look_at_cluster(admin)
    return found, {finding.rule: finding for finding in findings_of(Facts(found))}


def play(story: Story) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(LIMIT_S):
            await story

    asyncio.run(bounded())


def test_secrets_among_the_settings_of_an_apache_broker_are_left_out() -> None:
    told = {"brokerName": "b", "innerClientAuthenticationCredentials": "{}", "initAuthenticationUser": "{}"}
    assert without_secrets(told) == {"brokerName": "b"}


def test_the_clock_of_a_broker_by_its_start_and_how_long_ago_that_is() -> None:
    figures = {"bootTimestamp": "1000000", "runtime": "[ 1 days, 2 hours, 3 minutes, 4 seconds ]"}
    assert clock_of(figures) == 1_000_000 + (((24 + 2) * 60 + 3) * 60 + 4) * 1000 + 500
    assert clock_of({"bootTimestamp": "soon", "runtime": figures["runtime"]}) is None
    assert clock_of({"bootTimestamp": "1000000", "runtime": "a while"}) is None


def test_a_healthy_cluster(tmp_path: Path) -> None:
    async def story() -> None:
        async with started(tmp_path) as (running, admin):
            facts, findings = await seen(admin)
            assert findings == {}
            (broker,) = facts.brokers
            assert broker.address == running.broker.address and broker.known_to == admin.name_servers
            assert broker.answers_as == BROKER and broker.log_end is not None and broker.disk_ratio is not None
            assert broker.clock_ahead_ms is not None and abs(broker.clock_ahead_ms) <= broker.clock_doubt_ms
            assert broker.halves == 0 and not broker.unseen and not facts.unseen

    play(story())


@pytest.mark.parametrize(
    ("way", "rule"), [*zip(WAYS, ("name-server-silent", "no-broker", "broker-unreachable"), strict=True)]
)
def test_a_cluster_that_is_down(way: str, rule: str) -> None:
    async def story() -> None:
        async with down(way) as address, Admin(address) as admin:
            facts, findings = await seen(admin)
            assert set(findings) == {rule}
            assert facts.name_servers[0].address == address

    play(story())


def test_a_broker_that_advertises_an_address_where_nobody_is(tmp_path: Path) -> None:
    async def story() -> None:
        async with started(tmp_path, broker_ip1="127.0.0.9") as (running, admin):
            facts, findings = await seen(admin)
            assert set(findings) == {"broker-unreachable"}
            where = f"127.0.0.1:{running.broker.address.rpartition(':')[2]}"
            assert facts.brokers[0].answers_at == where
            assert "--host 127.0.0.1" in findings["broker-unreachable"].advice

    play(story())


def test_a_broker_that_advertises_the_address_of_another(tmp_path: Path) -> None:
    async def story() -> None:
        async with started(tmp_path) as (running, admin):
            await register(running.client, admin.name_servers[0], "broker-b", running.broker.address)
            _, findings = await seen(admin)
            assert set(findings) == {"wrong-broker", "not-told"}  # it has a topic that the other one does not know
            assert "broker-a answers there" in findings["wrong-broker"].sentence

    play(story())


def test_a_replica_that_is_gone_and_one_without_master(tmp_path: Path) -> None:
    async def story() -> None:
        async with started(tmp_path) as (running, admin):
            await register(running.client, admin.name_servers[0], BROKER, broker_id=1)
            assert set((await seen(admin))[1]) == {"broker-unreachable"}
            await register(running.client, admin.name_servers[0], "broker-b", broker_id=1)
            assert set((await seen(admin))[1]) == {"broker-unreachable", "no-master"}

    play(story())


@pytest.mark.parametrize(("by_ms", "words"), [(-9_000_000, "2 h behind"), (300_000_000, "3 d ahead")])
def test_a_broker_with_a_wrong_clock(tmp_path: Path, by_ms: int, words: str) -> None:
    async def story() -> None:
        async with started(tmp_path, clock=Shifted(by_ms)) as (_, admin):
            _, findings = await seen(admin)
            assert set(findings) == {"clock-differs"}
            assert words in findings["clock-differs"].sentence

    play(story())


def test_a_broker_whose_disk_is_full(tmp_path: Path) -> None:
    async def story() -> None:
        async with started(tmp_path, disk_space_warning_level_ratio=1) as (_, admin):
            _, findings = await seen(admin)
            assert set(findings) == {"writes-refused"}
            assert "disk" in findings["writes-refused"].sentence

    play(story())


def test_settings_that_are_unsafe(tmp_path: Path) -> None:
    unsafe = {
        "flush_disk_type": "ASYNC_FLUSH", "bind_address": "0.0.0.0", "http_bind_address": "0.0.0.0",
        "disk_space_reserve": 0, "max_connections": 0, "auto_create_topic_enable": True, "broker_permission": 4,
        "reject_transaction_message": True,
    }  # fmt: skip

    async def story() -> None:
        async with started(tmp_path, **unsafe) as (_, admin):
            _, findings = await seen(admin)
            assert set(findings) == {
                "async-flush", "open-to-everybody", "no-reserve", "unlimited-clients", "autocreate", "closed",
                "no-transactions",
            }  # fmt: skip

    play(story())


def half(group: str, key: str) -> dict[str, Any]:
    """The fields of a request that stores a half message."""
    return {
        "producer_group": group,
        "sys_flag": 4,
        "properties": f"TRAN_MSG\x01true\x02PGROUP\x01{group}\x02UNIQ_KEY\x01{key}\x02",
    }


def test_transactions_that_wait_for_a_person(tmp_path: Path) -> None:
    """Of ``pay`` nobody is online; a producer of ``PG`` is, and never answers; ``ship`` has a dead letter."""

    async def story() -> None:
        quick = {"transaction_time_out": 1, "transaction_check_interval": 1, "transaction_check_max": 100_000}
        async with started(tmp_path, **quick, auto_create_topic_enable=True) as (running, admin):
            for group, key in (("pay", "A1"), ("pay", "A2"), ("PG", "B1")):
                await running.sent("orders", **half(group, key))
            member = Consumer(running, "client-1", "readers")
            await member.beat("orders")
            await running.create_topic("%DLQ%ship", queues=1)
            await running.sent("%DLQ%ship")
            await asyncio.sleep(0.2)
            facts, findings = await seen(admin)
            await member.close()
            assert set(findings) == {"nobody-can-decide", "nobody-decides", "dead-letters", "autocreate"}
            assert findings["nobody-can-decide"].subject == "pay" and "2 open" in findings["nobody-can-decide"].sentence
            assert (
                findings["nobody-decides"].subject == "PG"
                and "1 of its producers is online" in findings["nobody-decides"].sentence
            )
            assert findings["dead-letters"].subject == "ship"
            assert {group.group: group.producers_online for group in facts.brokers[0].open_groups} == {
                "pay": 0,
                "PG": 1,
            }

    play(story())


@pytest.mark.slow
def test_name_servers_of_which_one_is_silent_and_one_knows_nobody(tmp_path: Path) -> None:
    async def story() -> None:
        async with started(tmp_path) as (_, admin), down(WAYS[1]) as empty:
            with accepts_and_never_answers() as silent:
                addresses = (*admin.name_servers, empty, silent)
                async with Admin(addresses, call_timeout_ms=1_000) as other:
                    _, findings = await seen(other)
            assert set(findings) == {"name-servers-differ", "name-server-silent"}
            assert findings["name-servers-differ"].subject == empty
            assert findings["name-server-silent"].subject == silent

    play(story())
