"""How many connections are accepted, and what the log says of the others."""

from __future__ import annotations

import asyncio

import pytest

from gantrymq.runtime.limits.connections import OpenConnections, client_of
from gantrymq.runtime.limits.refusals import Reason, Refusals
from gantrymq.runtime.limits.values import Limits
from tests.support.sim_clock import SimClock


def limited(**values: int) -> Limits:
    return Limits(**{"connections": 0, "connections_of_client": 0, **values})


def test_all_and_those_of_one_client_are_limited() -> None:
    refusals = Refusals(SimClock())
    open_ = OpenConnections(limited(connections=3, connections_of_client=2), refusals)
    assert [open_.admit(peer) for peer in ("a:1", "a:2", "a:3", "b:1", "c:1")] == [True, True, False, True, False]
    assert (open_.count, refusals.counts[Reason.CONNECTIONS]) == (3, 2)
    open_.release("a:1")
    assert open_.admit("c:1") and not open_.admit("c:2")
    open_.limits = limited()
    assert open_.admit("c:2") and open_.admit("a:3")
    for peer in ("a:2", "a:3", "b:1", "c:1", "c:2"):
        open_.release(peer)
    assert open_.count == 0 and not open_._of_client


@pytest.mark.parametrize(
    ("peer", "client"),
    [
        ("10.0.0.1:5", "10.0.0.1"),
        ("[2001:db8:1:2:3:4:5:6]:5", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2::]:5", "2001:db8:1:2::/64"),
        ("[2001:db8:1:3::1]:5", "2001:db8:1:3::/64"),
        ("[::1]:5", "::1"),
        ("[fe80::1%eth0]:5", "fe80::1%eth0"),
        ("[nonsense]:5", "nonsense"),
        ("?", ""),
    ],
)
def test_who_is_one_client(peer: str, client: str) -> None:
    assert client_of(peer) == client


def test_many_refusals_are_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        clock = SimClock()
        open_ = OpenConnections(limited(connections=1), Refusals(clock))
        open_.admit("[::1]:1")
        for number in range(100):
            assert not open_.admit(f"[::1]:{number}")
        open_.failed("b:1", "no TLS")  # another reason has lines of its own
        await clock.advance(11)
        assert not open_.admit("b:1")

    asyncio.run(test())
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3 and "raise maxConnections" in lines[0] and "(101 times since the start)" in lines[2]
    assert lines[1] == "b:1: no TLS (1 times since the start)"
