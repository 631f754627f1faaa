"""Selectors over the wire: 46, heartbeats, pulls with and without an inline subscription, held pulls, restarts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gantrymq.message.heartbeat import ConsumerData, SubscriptionData
from gantrymq.protocol.bodies.heartbeat import CheckClient, HeartbeatData
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.consumer import UnregisterClient
from gantrymq.protocol.headers.pull import PullMessageAnswer
from gantrymq.protocol.stored_message import scan
from tests.support.brokers import SUSPEND, Cluster, on_broker, until

FOREVER_MS = 20_000


def bodies(answer: Command) -> list[bytes]:
    return [message.body for message in scan(answer.body)]


def subscription(expression: str, version: int = 1, kind: str = "SQL92") -> SubscriptionData:
    return SubscriptionData(topic="T", sub_string=expression, sub_version=version, expression_type=kind)


async def check(c: Cluster, expression: str, kind: str = "SQL92") -> tuple[int, str | None]:
    body = CheckClient(client_id="c-1", group="CG", subscription_data=subscription(expression, kind=kind)).encode()
    answer = await c.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body)
    return answer.code, answer.remark


async def subscribe(c: Cluster, *data: SubscriptionData) -> None:
    group = ConsumerData(group_name="CG", subscription_data_set=list(data))
    body = HeartbeatData(client_id="c-1", consumer_data_set=[group]).encode()
    assert (await c.ask(RequestCode.HEART_BEAT, body=body)).code == ResponseCode.SUCCESS


async def fill(c: Cluster, *amounts: int) -> None:
    for amount in amounts:
        await c.sent("T", b"%d" % amount, f"amount\x01{amount}\x02")


def test_a_client_asks_first(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        assert await check(c, "amount > 5") == (ResponseCode.SUCCESS, None)
        assert await check(c, "amount > 5 trailing words") == (ResponseCode.SUCCESS, None)
        assert await check(c, "whatever", "TAG") == (ResponseCode.SUCCESS, None)
        code, remark = await check(c, "amount > 'five'")
        assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert remark and remark.startswith("Invalid MessageSelector. ") and "'five' cannot be compared" in remark
        code, remark = await check(c, "a = 1", "XPATH")
        assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED and remark and "XPATH" in remark
        assert (await c.ask(RequestCode.CHECK_CLIENT_CONFIG)).code == ResponseCode.SUCCESS

    on_broker(work, tmp_path, enable_property_filter=True)


def test_selectors_are_off_by_default(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await fill(c, 1)
        said = "The broker does not support consumer to filter message by SQL92"
        code, remark = await check(c, "amount > 5")
        assert code == ResponseCode.SYSTEM_ERROR and remark and remark.startswith(said)
        inline = await c.pull("T", expression_type="SQL92", subscription="amount > 5")
        assert inline.code == ResponseCode.SYSTEM_ERROR and (inline.remark or "").startswith(said)
        await subscribe(c, subscription("amount > 5"))
        assert (await c.pull("T", sys_flag=0)).code == ResponseCode.SYSTEM_ERROR

    on_broker(work, tmp_path)


def test_a_pull_brings_its_selector(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await fill(c, *range(10))
        answer = await c.pull("T", expression_type="SQL92", subscription="amount between 3 and 5 or amount = 9")
        assert bodies(answer) == [b"3", b"4", b"5", b"9"]
        assert answer.header(PullMessageAnswer).next_begin_offset == 10
        some = await c.pull("T", expression_type="SQL92", subscription="amount > 2", max_msg_nums=2)
        assert (bodies(some), some.header(PullMessageAnswer).next_begin_offset) == ([b"3", b"4"], 5)
        none = await c.pull("T", expression_type="SQL92", subscription="amount > 100")
        assert none.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert none.header(PullMessageAnswer).next_begin_offset == 10
        bad = await c.pull("T", expression_type="SQL92", subscription="amount >")
        assert bad.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert (bad.remark or "").startswith("parse the consumer's subscription failed: ")

    on_broker(work, tmp_path, enable_property_filter=True)


def test_answers_are_limited_in_bytes_and_the_rest_comes_next(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        for number in range(10):
            await c.sent("T", bytes(60_000), f"n\x01{number}\x02")
        offset, got = 0, 0
        while offset < 10:
            answer = await c.pull("T", offset=offset, expression_type="SQL92", subscription="n > 1")
            got += len(bodies(answer))
            assert len(bodies(answer)) <= 4
            offset = answer.header(PullMessageAnswer).next_begin_offset
        assert got == 8

    on_broker(work, tmp_path, enable_property_filter=True)


def test_the_selector_of_a_heartbeat(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await fill(c, 1, 10)
        await subscribe(c, subscription("amount >", version=5))
        wrong = await c.pull("T", sys_flag=0, sub_version=5)
        assert (wrong.code, "may be wrong" in (wrong.remark or "")) == (ResponseCode.FILTER_DATA_NOT_EXIST, True)
        await subscribe(c, subscription("amount > 5", version=6))
        # The Go client says TAG in its pulls whatever it subscribed to.
        assert bodies(await c.pull("T", sys_flag=0, sub_version=6, expression_type="TAG")) == [b"10"]
        newer = await c.pull("T", sys_flag=0, sub_version=7)
        assert newer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        await subscribe(c, subscription("amount < 5", version=7))
        assert bodies(await c.pull("T", sys_flag=0, sub_version=7)) == [b"1"]

    on_broker(work, tmp_path, enable_property_filter=True)


def test_a_held_pull_waits_for_what_its_selector_wants(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        await subscribe(c, subscription("amount > 5"))
        waiting = asyncio.ensure_future(c.pull("T", sys_flag=SUSPEND, suspend_timeout_millis=FOREVER_MS))
        await until(lambda: len(c.broker.held_pulls) == 1)
        await fill(c, 1, 2)
        assert len(c.broker.held_pulls) == 1
        await fill(c, 6)
        answer = await waiting
        assert (bodies(answer), answer.header(PullMessageAnswer).next_begin_offset) == ([b"6"], 3)

    on_broker(work, tmp_path, enable_property_filter=True)


@pytest.mark.slow
def test_a_held_pull_that_gets_nothing_learns_how_far_it_was_looked(tmp_path: Path) -> None:
    async def work(c: Cluster) -> None:
        await c.create_topic("T")
        await subscribe(c, subscription("amount > 5"))
        waiting = asyncio.ensure_future(c.pull("T", sys_flag=SUSPEND, suspend_timeout_millis=3_000))
        await until(lambda: len(c.broker.held_pulls) == 1)
        await fill(c, 1, 2)
        answer = await waiting
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert answer.header(PullMessageAnswer).next_begin_offset == 2

    on_broker(work, tmp_path, enable_property_filter=True)


@pytest.mark.parametrize("how", ["unregister", "hang up"])
def test_selectors_outlive_their_group_and_the_broker(tmp_path: Path, how: str) -> None:
    async def leave(c: Cluster) -> None:
        await subscribe(c, subscription("amount > 5", version=6))
        entry = c.broker.filters.get("T", "CG")
        assert entry is not None and not entry[0].is_dead
        if how == "unregister":
            header = UnregisterClient(client_id="c-1", consumer_group="CG")
            await c.ask(RequestCode.UNREGISTER_CLIENT, header)
        else:
            await c.client.close()

        def is_dead() -> bool:
            entry = c.broker.filters.get("T", "CG")
            return entry is not None and entry[0].is_dead

        await until(is_dead)

    async def come_back(c: Cluster) -> None:
        entry = c.broker.filters.get("T", "CG")
        assert entry is not None and entry[0].is_dead and entry[0].expression == "amount > 5"
        await subscribe(c, subscription("amount > 5", version=6))
        entry = c.broker.filters.get("T", "CG")
        assert entry is not None and not entry[0].is_dead

    on_broker(leave, tmp_path, enable_property_filter=True)
    on_broker(come_back, tmp_path, enable_property_filter=True)
