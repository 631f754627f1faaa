"""The queue of a key, batches by size: pure functions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.client.sending.ordering import by_hash
from gantrymq.message.message import Message
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.batch import encode_batch, in_batches

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(7)]
MESSAGE = Message("T", b"x")


@pytest.mark.parametrize(
    ("key", "queue_id"),
    # "order-1".hashCode() % 7 and so on, by Java; "polygenelubricants" is the least number there is.
    [("a", 97 % 7), ("", 0), ("polygenelubricants", 2147483648 % 7), ("TagA", 2598919 % 7)],
)
def test_a_key_goes_where_java_sends_it(key: str, queue_id: int) -> None:
    assert by_hash(QUEUES, MESSAGE, key).queue_id == queue_id


@given(st.text(max_size=40), st.integers(1, 64))
def test_a_key_always_has_the_same_queue(key: str, count: int) -> None:
    queues = [MessageQueue("T", "b", number) for number in range(count)]
    assert by_hash(queues, MESSAGE, key) is by_hash(queues, MESSAGE, key)


@given(st.lists(st.binary(min_size=1, max_size=400), max_size=30), st.integers(200, 1000))
def test_batches_keep_order_and_size(bodies: list[bytes], limit: int) -> None:
    parts = list(in_batches([Message("T", body) for body in bodies], limit))
    assert [message.body for part in parts for message in part] == bodies
    assert all(part for part in parts)
    assert all(len(part) == 1 or len(encode_batch(part)) <= limit for part in parts)
