"""Looking ahead changes nothing but the time: whatever the pieces are, the records are those of one reading."""

from __future__ import annotations

import random
import secrets
from pathlib import Path

import pytest

from gantrymq.message import flags
from gantrymq.store import linked_records
from gantrymq.store.config import StoreConfig
from gantrymq.store.linked_records import LinkedRecords
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord
from gantrymq.transactions.config import TransactionConfig
from gantrymq.transactions.decisions_ahead import DecisionsAhead
from gantrymq.transactions.rebuild import rebuild
from gantrymq.transactions.table.open_halves import OpenHalf
from tests.broker.transaction_lab import HOST, LabClock, LabDisk
from tests.transactions.test_rebuild import GOLDEN_STORES, open_golden


def fresh(store: MessageStore) -> LinkedRecords:
    """One that has looked at nothing."""
    return LinkedRecords(store._log, store._dispatch, store._quarantine)


def about(half: OpenHalf) -> tuple[str, list[int]]:
    return half.unique_key, half.queue_offsets()


def places(store: MessageStore) -> list[int]:
    return [record.log_offset for record in store.scan(0)]


@pytest.mark.parametrize("most", [linked_records.MOST, 5])
@pytest.mark.parametrize("name", GOLDEN_STORES)
def test_in_whatever_pieces(name: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked_records, "MOST", most)
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    store = open_golden(name, tmp_path)
    finals = [(one.prepared_transaction_offset, one.log_offset) for one in store.scan(0, only=flags.COMMITTED)]
    assert list(fresh(store).finals(0)) == finals and finals
    begins = places(store)
    linked = fresh(store)
    while linked.ahead < store.max_log_offset:
        linked.look_ahead(rng.choice((1, 7, 100, 3_000, 100_000)))
        begin = rng.choice(begins)
        assert list(linked.finals(begin)) == [one for one in finals if one[1] >= begin]
        assert list(linked.copies(begin)) == list(fresh(store).copies(begin))
        if rng.random() < 0.1:
            linked.truncated(rng.choice(begins))
    assert linked.ahead == store.max_log_offset
    assert list(linked.finals(0)) == finals


def test_copies_are_found_and_half_messages_are_none(tmp_path: Path) -> None:
    clock = LabClock()
    store = MessageStore.open(StoreConfig(root=str(tmp_path)), LabDisk(clock), clock, HOST)
    rng = random.Random(5)
    for number in range(200):
        kind, target = rng.choice((flags.ORDINARY, flags.PREPARED, flags.COMMITTED)), rng.choice((0, 0, 7))
        store.append([NewRecord("t", 0, b"x" * number, "", 0, HOST, 0, kind, 0, target)])
        clock.run()
    records = list(store.scan(0))
    copies = [
        (one.prepared_transaction_offset - 1, one.log_offset)
        for one in records
        if one.prepared_transaction_offset and not one.sys_flag & flags.TRANSACTION_MASK
    ]
    finals = [(one.prepared_transaction_offset, one.log_offset) for one in store.scan(0, only=flags.COMMITTED)]
    assert len(records) > 100 and copies and finals
    assert list(store.copies(0)) == copies and list(store.finals(0)) == finals
    while store.linked.ahead < store.max_log_offset:
        store.linked.look_ahead(500)
        assert list(store.copies(0)) == copies and list(store.finals(0)) == finals


@pytest.mark.parametrize("name", GOLDEN_STORES)
def test_the_decisions_that_were_read_ahead_are_those_of_a_rebuild(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gantrymq.transactions.decisions_ahead.OPS_IN_A_PIECE", 3)
    store = open_golden(name, tmp_path)
    wanted = rebuild(store, TransactionConfig())
    for pieces in range(8):
        ahead = DecisionsAhead(store)
        for _ in range(pieces):
            ahead.look_ahead()
        found = rebuild(store, TransactionConfig(), ahead.saved(), resolved=False)
        assert found.from_file and [about(one) for one in found.table] == [about(one) for one in wanted.table]
        assert found.missing_ops == wanted.missing_ops
        halves = range(*store.queue_range("RMQ_SYS_TRANS_HALF_TOPIC", 0))
        assert [found.table.decisions[at] for at in halves] == [wanted.table.decisions[at] for at in halves]
