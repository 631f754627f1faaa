"""Messages that the door renews while their consumer works on them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gantrymq.broker.grpc.clients import GrpcClient
from gantrymq.broker.grpc.deliveries import GONE_MS, GRACE_SECONDS, NOTED_AFTER_MS, RENEWED_FOR_MS, HeldDeliveries
from gantrymq.broker.pop.holds import NOBODY, HeldDelivery, Hold
from gantrymq.broker.pop.values import PopDelivery, Renewed
from gantrymq.broker.refusal import Refused
from gantrymq.message.receipt_handle import ReceiptHandle
from tests.broker.transaction_lab import LabClock


class Acks:
    """Keeps what is asked, until the test answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, Callable[[Renewed | Refused], None]]] = []
        self.holds: list[Hold] = []

    def change_invisible_time(
        self, delivery: PopDelivery, ms: int, *, suspend: bool, done: Callable[[Renewed | Refused], None], hold: Hold
    ) -> None:
        self.holds.append(hold)
        self.asked.append((delivery.receipt_handle, ms, done))


def held(clock: LabClock, *, noting: bool = True) -> tuple[HeldDeliveries, Acks, GrpcClient, ReceiptHandle]:
    acks, client = Acks(), GrpcClient("c", None, "127.0.0.1:1", "JAVA", clock)
    deliveries = HeldDeliveries(acks, clock, {}.get, lambda broker_name: noting)  # type: ignore[arg-type]
    handle = ReceiptHandle(0, clock.wall_ms(), 60_000, 3, "0", "broker-a", 0, 5)
    deliveries.hold(client, PopDelivery("g", "t", 0, 5, str(handle)), handle)
    return deliveries, acks, client, handle


def test_a_renewal_that_is_under_way_is_not_begun_again_and_the_first_handle_counts_on() -> None:
    clock = LabClock()
    deliveries, acks, _, handle = held(clock)
    deliveries.renew_due()
    assert acks.asked == []
    clock.advance(45)
    deliveries.renew_due()
    clock.advance(5)
    deliveries.renew_due()
    assert [(text, ms) for text, ms, _ in acks.asked] == [(str(handle), RENEWED_FOR_MS)]
    acks.asked[0][2](Renewed(clock.wall_ms(), RENEWED_FOR_MS, 3))
    assert deliveries.current("g", "t", handle).visible_at == clock.wall_ms() + RENEWED_FOR_MS
    clock.advance(50)
    deliveries.renew_due()
    assert len(acks.asked) == 2


@pytest.mark.parametrize("noting", [True, False])
def test_a_delivery_that_takes_longer_than_a_moment_is_noted_by_its_first_renewal(noting: bool) -> None:
    """A kill of the door before the note leaves the handle its 60 s, so the note comes soon, and once."""
    clock = LabClock()
    deliveries, acks, _, handle = held(clock, noting=noting)
    clock.advance(NOTED_AFTER_MS / 1000 - 0.1)
    deliveries.renew_due()
    assert acks.asked == [], "most messages are acknowledged sooner"
    clock.advance(0.1)
    deliveries.renew_due()
    if not noting:
        assert acks.asked == [], "the broker would keep no note"
        return
    acks.asked[0][2](Renewed(clock.wall_ms(), RENEWED_FOR_MS, 3))
    clock.advance(30)
    deliveries.renew_due()
    assert [text for text, _, _ in acks.asked] == [str(handle)]
    assert acks.holds == [Hold("c\n", handle.pop_time)]


def test_what_a_client_had_that_is_gone_comes_soon() -> None:
    clock = LabClock()
    deliveries, acks, client, handle = held(clock)
    client.alive = False
    deliveries.renew_due()
    deliveries.renew_due()
    assert [ms for _, ms, _ in acks.asked] == [GONE_MS]
    assert deliveries.current("g", "t", handle) is handle


def test_a_renewal_says_for_whom_and_which_handle_the_client_has() -> None:
    clock = LabClock()
    deliveries, acks, client, handle = held(clock)
    clock.advance(45)
    deliveries.renew_due()
    acks.asked[0][2](Renewed(clock.wall_ms(), RENEWED_FOR_MS, 3))
    clock.advance(45)
    deliveries.renew_due()
    assert acks.holds == [Hold(client.name, handle.pop_time)] * 2
    client.alive = False
    deliveries.renew_due()
    assert acks.holds[2:] == [NOBODY], "it comes back for good"


def resumed(clock: LabClock, known: dict[str, GrpcClient]) -> tuple[HeldDeliveries, Acks, ReceiptHandle]:
    """A door that starts when the last renewal of the one before it is over."""
    acks, now = Acks(), clock.wall_ms()
    handle = ReceiptHandle(5, now - 61_000, 60_000, 3, "0", "broker-a", 0, 5)
    delivery = HeldDelivery(Hold("c\n", now - 200_000), "g", "t", handle)
    deliveries = HeldDeliveries(acks, clock, known.get)  # type: ignore[arg-type]
    deliveries.resume([delivery])
    return deliveries, acks, delivery.first


def test_a_door_that_starts_anew_renews_at_once_and_knows_the_first_handle() -> None:
    clock = LabClock()
    client = GrpcClient("c", None, "127.0.0.1:1", "JAVA", clock)
    known: dict[str, GrpcClient] = {}
    deliveries, acks, first = resumed(clock, known)
    assert [ms for _, ms, _ in acks.asked] == [RENEWED_FOR_MS]
    acks.asked[0][2](Renewed(clock.wall_ms(), RENEWED_FOR_MS, 3))
    assert deliveries.current("g", "t", first).visible_at == clock.wall_ms() + RENEWED_FOR_MS
    known["c\n"] = client
    for _ in range(3):
        clock.advance(45)
        deliveries.renew_due()
        acks.asked[-1][2](Renewed(clock.wall_ms(), RENEWED_FOR_MS, 3))
    assert [ms for _, ms, _ in acks.asked] == [RENEWED_FOR_MS] * 4
    client.alive = False
    deliveries.renew_due()
    assert [ms for _, ms, _ in acks.asked][4:] == [GONE_MS]


def test_what_a_client_had_that_does_not_come_back_comes_when_the_grace_is_over() -> None:
    clock = LabClock()
    deliveries, acks, first = resumed(clock, {})
    acks.asked[0][2](Renewed(clock.wall_ms(), RENEWED_FOR_MS, 3))
    clock.advance(GRACE_SECONDS + 1)
    deliveries.renew_due()
    assert [ms for _, ms, _ in acks.asked] == [RENEWED_FOR_MS, GONE_MS]
    assert deliveries.current("g", "t", first) is first


def test_who_ends_a_delivery_waits_for_its_renewal() -> None:
    """The handle before it would be acknowledged, and the message come again with the new one."""

    async def play() -> None:
        clock = LabClock()
        deliveries, acks, _, handle = held(clock)
        await deliveries.settled("g", "t", handle)
        clock.advance(45)
        deliveries.renew_due()
        waiting = [asyncio.create_task(deliveries.settled("g", "t", handle)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting.pop().cancel()
        await asyncio.sleep(0)
        assert not waiting[0].done()
        acks.asked[0][2](Renewed(clock.wall_ms(), RENEWED_FOR_MS, 3))
        await asyncio.wait_for(waiting[0], 5)
        assert deliveries.current("g", "t", handle).pop_time == clock.wall_ms()

    asyncio.run(play())
