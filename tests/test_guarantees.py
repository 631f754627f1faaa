"""docs/guarantees.md: every promise names the tests that hold it, and they exist. And what is tested nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gantrymq.message.transaction import Resolution
from tests.holes.actors import always
from tests.holes.stage import INTERVAL_S, OurStage, play_ours

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "guarantees.md"
NOT_PROMISED = "## What is not promised"
ITEM = re.compile(r"\* (?P<words>.+[.:]) \[(?P<tests>[^\]]+)\]")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
FEW = 6
SEEDS = 10
ASYNC = {"flush_disk_type": "ASYNC_FLUSH"}


def promises() -> list[str]:
    """Every line of the page that promises something: all but headings, the beginning, and the last section."""
    text = PAGE.read_text().partition(NOT_PROMISED)[0]
    return [line for line in text[text.index("\n## ") :].splitlines() if line and not line.startswith("#")]


def test_the_page_is_read() -> None:
    assert len(promises()) > 40 and NOT_PROMISED in PAGE.read_text()


@pytest.mark.parametrize("line", promises())
def test_every_promise_names_a_test(line: str) -> None:
    item = ITEM.fullmatch(line)
    assert item is not None, "a promise is one line: `* words. [tests]`"
    assert NAMED.findall(item["tests"]), "it names no test"
    assert not NAMED.sub("", item["tests"]).strip(", "), "beside its tests stands nothing"


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED.findall(PAGE.read_text()))))
def test_every_named_test_exists(path: str, name: str) -> None:
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


# ---- promises that are tested nowhere else


def test_committed_in_order_is_read_in_order() -> None:
    async def play(stage: OurStage) -> None:
        topic, producer = await stage.topic(), await stage.producer()
        halves = await producer.halves(topic, FEW)
        order = [*halves[::2], *reversed(halves[1::2])]
        for half in order:
            await producer.commit(half)
        assert await stage.keys(topic) == [half.key for half in order]

    play_ours(play)


def test_with_async_flush_a_kill_takes_nothing() -> None:
    async def play(stage: OurStage) -> None:
        topic, producer = await stage.topic(), await stage.producer()
        halves = await producer.halves(topic, FEW)
        for half in halves[::2]:
            await producer.commit(half)
        await stage.restart()
        producer = await stage.producer(producer.group)
        producer.answer = always(Resolution.ROLLBACK)
        await stage.sleep(stage.timeout_s + 2 * INTERVAL_S)
        assert await stage.keys(topic) == [half.key for half in halves[::2]]
        assert {check.key for check in producer.checks} == {half.key for half in halves[1::2]}

    play_ours(play, **ASYNC)


def test_with_async_flush_a_power_cut_leaves_one_outcome() -> None:
    asked = [_checks_after_a_power_cut(seed) for seed in range(SEEDS)]
    assert 0 < sum(asked) < SEEDS * FEW, "some decisions are gone, and asked for again; some are there"


def _checks_after_a_power_cut(seed: int) -> int:
    async def play(stage: OurStage) -> int:
        topic, producer = await stage.topic(), await stage.producer()
        halves = await producer.halves(topic, FEW)
        await stage.sleep(INTERVAL_S / 2)  # long enough for them to be on the disk
        committed, rolled_back = halves[::2], halves[1::2]
        for one, other in zip(committed, rolled_back, strict=True):
            await producer.commit(one)
            await producer.roll_back(other)
        stage.disk._rng.seed(seed)
        stage.cut_power()
        await stage.start()
        producer = await stage.producer(producer.group)
        wanted = {half.key for half in committed}
        producer.answer = lambda check: Resolution.COMMIT if check.key in wanted else Resolution.ROLLBACK
        await stage.sleep(stage.timeout_s + 2 * INTERVAL_S)
        keys = await stage.keys(topic)
        assert sorted(keys) == sorted(wanted), f"seed {seed}"
        return len(producer.checks)

    return play_ours(play, **ASYNC)
