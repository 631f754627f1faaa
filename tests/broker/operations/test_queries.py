"""Finding stored messages by key and by place."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.broker.operations.queries import KEY_MAX, UNIQUE_KEY_MAX, FoundByKey, KeyQuery, Queries
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.protocol.stored_message import decode_record
from gantrymq.store.values import NewRecord
from tests.broker.delivery.pull_lab import TOPIC, PullLab
from tests.broker.transaction_lab import HOST
from tests.support.connections import KeptConnection

FOREVER = 1 << 60


class Lab(PullLab):
    """A store with messages that have keys."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.queries = Queries(self.store, None)

    def send_with_key(self, body: bytes, key: str = "k") -> int:
        """Log offset of the message."""
        (placement,) = self.store.append([NewRecord(TOPIC, 0, body, f"KEYS\x01{key}\x02", self.clock.wall, HOST)])
        self.clock.run()
        return placement.log_offset

    def find(self, key: str = "k", count: int = 10, *, unique: bool = False) -> FoundByKey:
        return self.queries.by_key(KeptConnection(), KeyQuery(TOPIC, key, count, 0, FOREVER, unique))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_the_newest_come_first(lab: Lab) -> None:
    lab.send_with_key(b"a")
    lab.clock.advance(1)
    last = lab.send_with_key(b"b")
    lab.send_with_key(b"c", "other")
    found = lab.find()
    assert [decode_record(record).body for record in found.records] == [b"b", b"a"]
    assert (found.last_log_offset, found.last_store_timestamp) == (last, lab.clock.wall)


def test_nothing_is_found(lab: Lab) -> None:
    assert lab.find("nobody") == FoundByKey((), 0, 0)


def test_counts_are_limited(lab: Lab) -> None:
    for _ in range(KEY_MAX + 1):
        lab.send_with_key(b"a")
    assert len(lab.find(count=1000).records) == KEY_MAX
    assert len(lab.find(count=0).records) == 1
    assert len(lab.find(count=1, unique=True).records) == UNIQUE_KEY_MAX


def test_bytes_are_limited_but_one_message_is_always_found(lab: Lab) -> None:
    for _ in range(3):
        lab.send_with_key(bytes(1000))
    lab.queries = Queries(lab.store, None, answer_max_bytes=2500)
    assert len(lab.find().records) == 2
    lab.queries = Queries(lab.store, None, answer_max_bytes=10)
    assert len(lab.find().records) == 1


def test_a_message_by_its_place(lab: Lab) -> None:
    place = lab.send_with_key(b"a")
    assert decode_record(lab.queries.by_log_offset(KeptConnection(), place)).body == b"a"
    with pytest.raises(Refused) as caught:
        lab.queries.by_log_offset(KeptConnection(), place + 1)
    assert caught.value.reason is Refusal.FAILED
