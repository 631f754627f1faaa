"""Undecided transactions page by page: order, filters, cursors, and the limit of what one request looks at."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gantrymq.broker.message_rights import all_of_them
from gantrymq.broker.refusal import Refused
from gantrymq.broker.transactions import pages as pages_module
from gantrymq.broker.transactions.pages import TransactionPages, Wanted
from gantrymq.message.transaction import Resolution
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.headers.tools import ListTransactions
from gantrymq.transactions.rules.states import State
from tests.broker.transaction_lab import GROUP, Lab
from tests.broker.transactions.test_explanations import CONFIG, park, resume
from tests.support.brokers import Cluster, on_broker


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path, check_max=2)

    async def sleep(seconds: float) -> None:
        assert not seconds

    lab.clock.sleep = sleep  # type: ignore[method-assign]
    yield lab
    lab.crash()


def pages(lab: Lab) -> TransactionPages:
    return TransactionPages(CONFIG, lab.store, lab.coordinator, lab.producers, lab.clock)


def page(lab: Lab, **wanted: Any) -> tuple[list[str], int | None]:
    found = asyncio.run(pages(lab).page(Wanted(**wanted, told=all_of_them)))
    json.dumps(found)
    return [row["id"] for row in found["transactions"]], found["next"]


def test_pages_follow_each_other_oldest_first(lab: Lab) -> None:
    producer = lab.online()
    keys = []
    for _ in range(5):
        keys.append(lab.half(producer).key)
        lab.clock.advance(1)
    first, cursor = page(lab, count=2)
    second, cursor_2 = page(lab, count=2, after=cursor)
    third, end = page(lab, count=2, after=cursor_2)
    assert first + second + third == keys
    assert cursor is not None and cursor_2 is not None and end is None
    assert page(lab, count=5) == (keys, None)


def test_a_cursor_survives_that_its_transaction_ends(lab: Lab) -> None:
    producer = lab.online()
    halves = [lab.half(producer) for _ in range(4)]
    _, cursor = page(lab, count=2)
    lab.commit(producer, halves[1])
    assert page(lab, count=5, after=cursor)[0] == [half.key for half in halves[2:]]


def test_filters(lab: Lab) -> None:
    producer = lab.online()
    old = lab.half(producer)
    lab.clock.advance(60)
    young = lab.half(producer)
    assert page(lab, min_age_ms=30_000) == ([old.key], None)
    assert page(lab, group=GROUP)[0] == [old.key, young.key]
    assert page(lab, group="PG_other") == ([], None)
    assert page(lab, topic="NoSuchTopic") == ([], None)


def test_the_same_where_few_of_many_are_open(lab: Lab) -> None:
    producer = lab.online()
    halves = [lab.half(producer) for _ in range(40)]
    for half in halves[1:-2]:
        lab.commit(producer, half)
    first, cursor = page(lab, count=2)
    assert first == [halves[0].key, halves[-2].key] and cursor is not None
    assert page(lab, count=2, after=cursor) == ([halves[-1].key], None)
    assert page(lab, count=2, after=5)[0] == [half.key for half in halves[-2:]]


@pytest.mark.pure("a limit is replaced, which is a constant of the compiled module")
def test_a_request_looks_at_so_many_only_and_says_where_to_go_on(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(pages_module, "OPEN_LOOKED_AT_MAX", 2)
    producer = lab.online()
    for _ in range(3):
        lab.half(producer)
    found, cursor = page(lab, group="PG_other")
    assert found == [] and cursor is not None
    assert page(lab, group="PG_other", after=cursor) == ([], None)


def test_parked_ones_and_the_reason(lab: Lab) -> None:
    producer = lab.online()
    parked = lab.half(producer)
    park(lab, producer, parked)
    found = asyncio.run(pages(lab).page(Wanted(State.PARKED, told=all_of_them)))
    (row,) = found["transactions"]
    assert (row["id"], row["state"], found["next"]) == (parked.key, "parked", None)
    assert "parked" in row["why"] and "resume" in row["advice"]
    assert page(lab, state=State.PARKED, group="PG_other") == ([], None)
    resume(lab)
    assert page(lab, state=State.PARKED) == ([], None)


@pytest.mark.parametrize("wanted", [Wanted(count=0), Wanted(count=501), Wanted(State.COMMITTED)])
def test_what_is_refused(lab: Lab, wanted: Wanted) -> None:
    with pytest.raises(Refused, match="ask for"):
        asyncio.run(pages(lab).page(wanted))


def test_the_summary_counts_by_group(lab: Lab) -> None:
    producer = lab.online()
    first = lab.half(producer)
    lab.clock.advance(5)
    lab.half(producer)
    found = pages(lab).summary(all_of_them)
    json.dumps(found)
    assert (found["open"], found["oldest_age_ms"]) == (2, 5_000)
    (group,) = found["groups"]
    assert (group["group"], group["open"], group["oldest_age_ms"], group["producers_online"]) == (GROUP, 2, 5_000, 1)
    lab.commit(producer, first)
    lab.end(producer, first, Resolution.ROLLBACK)
    found = pages(lab).summary(all_of_them)
    assert (found["open"], found["counts"]["commits"], found["counts"]["conflicts"]) == (1, 1, 1)


def test_the_requests(tmp_path: Path) -> None:
    async def work(running: Cluster) -> None:
        for number in range(3):
            properties = f"TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01ABC{number}\x02"
            await running.sent("Orders", properties=properties)
        answer = await running.ask(RequestCode.LIST_TRANSACTIONS, ListTransactions(state="open", count=2))
        found = json.loads(answer.body)
        assert [row["id"] for row in found["transactions"]] == ["ABC0", "ABC1"]
        assert "No producer of group PG" in found["transactions"][0]["why"] or "may still" in str(found)
        summary = json.loads((await running.ask(RequestCode.SUMMARIZE_TRANSACTIONS)).body)
        assert (summary["open"], summary["topics"]) == (3, {"Orders": 3})
        for wrong in (ListTransactions(state="done", count=2), ListTransactions(state="open", count=0)):
            answer = await running.ask(RequestCode.LIST_TRANSACTIONS, wrong)
            assert answer.code == ResponseCode.INVALID_PARAMETER

    on_broker(work, tmp_path)
