"""Acknowledgements and changes of the invisible time as operations."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.broker.pop.values import MAX_INVISIBLE_MS, PopDelivery, Renewed
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.errors import StoreError
from gantrymq.message.pop import BatchAck
from gantrymq.message.receipt_handle import ORDERLY
from tests.broker.pop.lab import GROUP, TOPIC, Given, PopLab


@pytest.fixture
def lab(tmp_path: Path) -> PopLab:
    return PopLab(tmp_path, queues=1)


def delivery(item: Given, **fields: object) -> PopDelivery:
    handle = item.handle
    values: dict[str, object] = {
        "group": GROUP, "topic": item.topic, "queue_id": handle.queue_id, "offset": handle.offset,
        "receipt_handle": str(handle),
    }  # fmt: skip
    return PopDelivery(**{**values, **fields})  # type: ignore[arg-type]


def popped(lab: PopLab, *bodies: str, **wanted: object) -> list[Given]:
    for body in bodies:
        lab.send(body)
    return lab.pop(**wanted).messages  # type: ignore[arg-type]


def test_an_acknowledgement_is_done_when_it_is_durable(lab: PopLab) -> None:
    (item,) = popped(lab, "a")
    done: list[Refused | None] = []
    lab.disk.hold()
    assert not lab.acks.ack(delivery(item), done.append)
    lab.clock.run()
    assert done == []
    lab.disk.release()
    assert done == [None]
    assert len(lab.consumption.revive_log.ledger) == 0


def test_a_failed_acknowledgement_is_refused(lab: PopLab) -> None:
    (item,) = popped(lab, "a")
    done: list[Refused | None] = []
    lab.disk.hold()
    lab.acks.ack(delivery(item), done.append)
    lab.clock.run()
    lab.disk.release(StoreError("the disk is gone"))
    (refused,) = done
    assert refused is not None
    assert refused.reason is Refusal.FAILED


def test_what_was_acknowledged_before_is_done_at_once(lab: PopLab) -> None:
    (item,) = popped(lab, "a")
    done: list[Refused | None] = []
    for _ in range(2):
        lab.acks.ack(delivery(item), done.append)
        lab.clock.run()
    assert done == [None, None]


def test_acknowledgements_that_are_refused(lab: PopLab) -> None:
    (item,) = popped(lab, "a")

    def refusal(**fields: object) -> Refusal:
        with pytest.raises(Refused) as caught:
            lab.acks.ack(delivery(item, **fields), lambda refused: None)
        return caught.value.reason

    assert refusal(topic="Nowhere") is Refusal.TOPIC_UNKNOWN
    assert refusal(queue_id=1) is Refusal.MESSAGE_ILLEGAL
    assert refusal(offset=2) is Refusal.MESSAGE_UNKNOWN
    assert refusal(receipt_handle="no handle") is Refusal.MESSAGE_ILLEGAL


def test_an_orderly_acknowledgement_is_done_at_once(lab: PopLab) -> None:
    lab.send("a")
    call = lab.pop(order=True)
    (item,) = call.messages
    assert item.handle.orderly
    assert lab.acks.ack(delivery(item), lambda refused: None)
    assert lab.offsets.get(GROUP, TOPIC, 0) == 1


def batch_ack(items: list[Given], **fields: object) -> BatchAck:
    handle = items[0].handle
    bits = sum(1 << (item.handle.offset - handle.start_offset) for item in items)
    values: dict[str, object] = {
        "consumer_group": GROUP, "topic": TOPIC, "start_offset": handle.start_offset, "queue_id": handle.queue_id,
        "revive_queue_id": handle.revive_queue, "pop_time": handle.pop_time, "invisible_time": handle.invisible_time,
        "bit_set": bits.to_bytes(4, "little"),
    }  # fmt: skip
    return BatchAck(**{**values, **fields})  # type: ignore[arg-type]


def test_a_batch_of_acknowledgements(lab: PopLab) -> None:
    items = popped(lab, "a", "b", "c")
    done: list[Refused | None] = []
    lab.acks.batch_ack([batch_ack(items[:2])], None, done.append)
    lab.clock.run()
    assert done == [None]
    (opened,) = list(lab.consumption.revive_log.ledger)
    assert opened.pending == {2}


def test_batches_that_are_refused(lab: PopLab) -> None:
    items = popped(lab, "a")
    with pytest.raises(Refused) as caught:
        lab.acks.batch_ack([], None, lambda refused: None)
    assert caught.value.reason is Refusal.MESSAGE_UNKNOWN
    with pytest.raises(Refused) as caught:
        lab.acks.batch_ack([batch_ack(items, retry="9")], None, lambda refused: None)
    assert caught.value.reason is Refusal.MESSAGE_ILLEGAL


def test_an_orderly_batch_holds_messages_of_the_last_pop_only(lab: PopLab) -> None:
    lab.send("a")
    lab.send("b")
    (item,) = lab.pop(1, order=True).messages
    second = 0b10.to_bytes(1, "little")
    with pytest.raises(Refused) as caught:
        lab.acks.batch_ack([batch_ack([item], bit_set=second)], None, lambda refused: None)
    assert caught.value.reason is Refusal.MESSAGE_ILLEGAL
    done: list[Refused | None] = []
    lab.acks.batch_ack([batch_ack([item])], None, done.append)
    assert (done, lab.offsets.get(GROUP, TOPIC, 0)) == ([None], 1)


def change(lab: PopLab, item: PopDelivery, invisible_ms: int, done: list[Renewed | Refused]) -> Renewed | None:
    renewed = lab.acks.change_invisible_time(item, invisible_ms, suspend=False, done=done.append)
    lab.clock.run()
    return renewed


def test_a_changed_time_counts_from_now(lab: PopLab) -> None:
    (item,) = popped(lab, "a", invisible_ms=60_000)
    lab.clock.advance(10)
    done: list[Renewed | Refused] = []
    assert change(lab, delivery(item), 5_000, done) is None
    assert done == [Renewed(lab.clock.wall, 5_000, item.handle.revive_queue)]
    lab.clock.advance(6)
    assert [again.body for again in lab.pop().messages] == ["a"]


def test_changes_that_are_refused(lab: PopLab) -> None:
    (item,) = popped(lab, "a")

    def refusal(invisible_ms: int = 5_000, **fields: object) -> Refusal:
        with pytest.raises(Refused) as caught:
            change(lab, delivery(item, **fields), invisible_ms, [])
        return caught.value.reason

    assert refusal(topic="Nowhere") is Refusal.TOPIC_UNKNOWN
    assert refusal(offset=1) is Refusal.MESSAGE_UNKNOWN
    assert refusal(-1) is Refusal.PARAMETER_INVALID
    assert refusal(MAX_INVISIBLE_MS + 1) is Refusal.PARAMETER_INVALID
    assert refusal(receipt_handle="no handle") is Refusal.MESSAGE_ILLEGAL
    lab.ack(item)
    assert refusal() is Refusal.MESSAGE_UNKNOWN, "the delivery has ended"


def test_an_orderly_change_is_done_at_once(lab: PopLab) -> None:
    lab.send("a")
    (item,) = lab.pop(order=True).messages
    lab.clock.advance(1)
    renewed = change(lab, delivery(item), 5_000, [])
    assert renewed == Renewed(item.handle.pop_time, 6_000, ORDERLY)
    lab.clock.advance(4)
    assert lab.pop(order=True).messages == []
    lab.clock.advance(2)
    assert [again.body for again in lab.pop(order=True).messages] == ["a"]
