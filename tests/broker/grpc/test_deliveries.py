"""Messages that the door renews while their consumer works on them."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.broker.grpc.clients import GrpcClient
from gantrymq.broker.grpc.deliveries import GONE_MS, RENEWED_FOR_MS, HeldDeliveries
from gantrymq.broker.pop.values import PopDelivery, Renewed
from gantrymq.broker.refusal import Refused
from gantrymq.message.receipt_handle import ReceiptHandle
from tests.broker.transaction_lab import LabClock


class Acks:
    """Keeps what is asked, until the test answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, Callable[[Renewed | Refused], None]]] = []

    def change_invisible_time(
        self, delivery: PopDelivery, ms: int, *, suspend: bool, done: Callable[[Renewed | Refused], None]
    ) -> None:
        self.asked.append((delivery.receipt_handle, ms, done))


def held(clock: LabClock) -> tuple[HeldDeliveries, Acks, GrpcClient, ReceiptHandle]:
    acks, client = Acks(), GrpcClient("c", None, "127.0.0.1:1", "JAVA", 0)
    deliveries = HeldDeliveries(acks, clock)  # type: ignore[arg-type]
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


def test_what_a_client_had_that_is_gone_comes_soon() -> None:
    clock = LabClock()
    deliveries, acks, client, handle = held(clock)
    client.alive = False
    deliveries.renew_due()
    deliveries.renew_due()
    assert [ms for _, ms, _ in acks.asked] == [GONE_MS]
    assert deliveries.current("g", "t", handle) is handle
