"""Ordered consumption: locks of queues, pauses, hand-over when readers come and go."""

from __future__ import annotations

import pytest

from tests.interop.java_clients.conftest import Played, Server

SCENARIO = "Ordered"
ORDERS = 4


@pytest.mark.feature("send: ordered")
def test_a_selector_keeps_an_order_in_one_queue(played: Played) -> None:
    for order in range(ORDERS):
        steps = [played.sent()[f"{order}-{i}"] for i in range(8)]
        assert len({step["queueId"] for step in steps}) == 1
        offsets = [step["queueOffset"] for step in steps]
        assert offsets == sorted(offsets)


@pytest.mark.feature("push: orderly")
def test_each_order_is_consumed_in_order_whoever_reads(played: Played) -> None:
    got = [entry for entry in played.steps("got") if entry["who"] != "dead" and entry["body"] != "poison"]
    for order in range(ORDERS):
        bodies = [entry["body"] for entry in got if entry["body"].startswith(f"{order}-")]
        expected = [f"{order}-{i}" for i in range(8)]
        if order == 1:
            expected.insert(1, "1-1")
        assert bodies == expected


@pytest.mark.feature("push: orderly")
def test_a_suspended_message_comes_again_with_its_count(played: Played) -> None:
    again = played.got("one")["1-1"]
    assert [entry["times"] for entry in again] == [0, 1]


@pytest.mark.feature("push: orderly", "push: retry and dead letter")
def test_what_is_never_consumed_in_order_becomes_a_dead_letter(played: Played, server: Server) -> None:
    assert [entry["times"] for entry in played.got("one")["poison"]] == [0, 1]
    if server.version == "4.9.7":  # which keeps even dead letters back for their delay
        return
    dead = played.one("got", who="dead")
    assert dead["body"] == "poison"


@pytest.mark.feature("push: orderly", "push: rebalance")
def test_locks_are_handed_over(played: Played) -> None:
    second = {entry["who"] for entry in played.steps("got") if entry["body"][-1] in "345" and entry["body"] != "poison"}
    assert second == {"one", "two"}
    third = {entry["who"] for entry in played.steps("got") if entry["body"][-1] in "67"}
    assert third == {"two"}
