"""Queues closed by orderly pops, and their file."""

from __future__ import annotations

import pytest

from gantrymq.broker.pop.order_blocks import EXPIRY_MS, Acked, OrderBlocks
from gantrymq.broker.registries.json_file import pretty
from gantrymq.protocol import lenient_json

AT = 1_700_000_000_000


def popped(blocks: OrderBlocks, offsets: list[int], at: int = AT, attempt: str | None = None) -> dict[int, int]:
    return blocks.popped("T", "G", 0, offsets, at, 60_000, attempt)


def until(blocks: OrderBlocks, now: int = AT, attempt: str | None = None) -> int | None:
    return blocks.blocked_until("T", "G", 0, attempt, now)


def test_a_queue_is_closed_until_all_is_acknowledged_or_visible() -> None:
    blocks = OrderBlocks()
    assert until(blocks) is None
    assert popped(blocks, [3, 4, 6]) == {}
    assert until(blocks) == AT + 60_000
    assert until(blocks, AT + 60_000) is None
    assert blocks.ack("T", "G", 0, 4, AT) == Acked(3)
    assert blocks.ack("T", "G", 0, 3, AT) == Acked(6)
    blocks.change("T", "G", 0, 6, AT, AT + 500)
    assert until(blocks) == AT + 500
    assert blocks.ack("T", "G", 0, 6, AT) == Acked(7)
    assert until(blocks) is None


def test_only_the_last_batch_counts() -> None:
    blocks = OrderBlocks()
    assert blocks.ack("T", "G", 0, 3, AT) == Acked(4), "nothing is known about the queue"
    popped(blocks, [3, 4])
    assert blocks.ack("T", "G", 0, 3, AT - 1) == Acked(None)
    assert blocks.ack("T", "G", 0, 5, AT) == Acked(None, illegal=True)
    blocks.change("T", "G", 0, 3, AT - 1, AT)
    assert until(blocks) == AT + 60_000


def test_repeated_messages_are_counted_except_in_the_same_attempt() -> None:
    blocks = OrderBlocks()
    popped(blocks, [3, 4], attempt="a")
    assert until(blocks, attempt="a") is None
    assert popped(blocks, [3, 4], AT + 1, "a") == {}
    assert popped(blocks, [4, 5], AT + 2, "b") == {4: 1}
    assert popped(blocks, [4, 5], AT + 3) == {4: 2, 5: 1}


def test_a_group_that_was_told_to_read_elsewhere_is_not_blocked() -> None:
    blocks = OrderBlocks()
    popped(blocks, [3, 4])
    blocks.read_from("T", "G", 0, 3)
    assert until(blocks) is not None
    blocks.read_from("T", "G", 0, 0)
    assert until(blocks) is None


def test_batches_nobody_came_back_for_are_forgotten() -> None:
    blocks = OrderBlocks()
    popped(blocks, [3])
    blocks.expire(AT + EXPIRY_MS)
    assert blocks.content()["table"]
    blocks.expire(AT + EXPIRY_MS + 1)
    assert blocks.content()["table"] == {}


APACHES = (
    '{"orderInfoCount":1,"orderedConsumptionLevel":"QUEUE","table":{"T@G":{0:{"cm":1,"i":60000,"l":1795238051865,'
    '"o":[3,1],"oc":{3:1,4:1},"ot":{4:1700000000999},"popTime":1700000000001}}}}'
)


def test_apaches_file_is_read_and_written() -> None:
    blocks = OrderBlocks()
    blocks.load(lenient_json.loads(APACHES.encode()))
    assert until(blocks, AT) == AT + 999
    assert blocks.ack("T", "G", 0, 4, AT + 1) == Acked(5)
    assert popped(blocks, [3, 4], AT + 2) == {3: 2, 4: 2}
    again = OrderBlocks()
    again.load(lenient_json.loads(pretty(blocks.content()).encode()))
    assert again.content() == blocks.content()


@pytest.mark.parametrize("text", ['{"table":{"T@G":{"0":{"o":[1]}}}}', '{"table":{"T@G":{"x":{"o":[1],"popTime":1}}}}'])
def test_a_damaged_file_is_refused(text: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        OrderBlocks().load(lenient_json.loads(text.encode()))
