"""Rebuilding the transactions from a store: stores of Apache's brokers, torn writes, and copies."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from gantrymq.broker.refusal import Refusal
from gantrymq.message import flags, properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF, OP, PARKED
from gantrymq.message.transaction import Resolution
from gantrymq.store.config import StoreConfig
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord
from gantrymq.transactions.config import TransactionConfig
from gantrymq.transactions.rebuild import Rebuilt, rebuild
from gantrymq.transactions.records.half import new_record_of, op_record
from gantrymq.transactions.table.decisions import Decision
from tests.broker.transaction_lab import DONE, HOST, TOPIC, Half, Lab, LabClock, LabDisk
from tests.support.archives import unpack_all

GOLDEN = Path(__file__).parents[1] / "golden" / "store"
GOLDEN_STORES = ["4.9.7", "5.5.0", "5.5.0-killed"]


def open_golden(name: str, tmp_path: Path) -> MessageStore:
    with tarfile.open(GOLDEN / f"{name}.tar.gz") as archive:
        unpack_all(archive, tmp_path)
    (log,) = tmp_path.rglob("commitlog")
    clock = LabClock()
    config = StoreConfig(
        root=str(log.parent), mapped_file_size_commit_log=16384, mapped_file_size_consume_queue=400,
        max_index_num=120, max_hash_slot_num=40,
    )  # fmt: skip
    store = MessageStore.open(config, LabDisk(clock), clock, HOST)
    clock.run()
    return store


def expected(name: str) -> Any:
    return json.loads(gzip.decompress((GOLDEN / f"{name}.expected.json.gz").read_bytes()))["transactions"]


@pytest.mark.parametrize("name", GOLDEN_STORES)
def test_g48_stores_of_apache_brokers_have_the_same_open_halves(name: str, tmp_path: Path) -> None:
    """G48: their halves stay pending, what they settled is settled, copies belong together."""
    found = rebuild(open_golden(name, tmp_path), TransactionConfig())
    wanted = [
        (transaction["uniqKey"], transaction["halfQueueOffsets"])
        for transaction in expected(name)["transactions"]
        if transaction["state"] == "open"
    ]
    assert [(half.unique_key, half.queue_offsets()) for half in found.table] == wanted
    assert all((half.group, half.real_topic) == ("PG_store", "StoreTx") for half in found.table)
    assert found.quarantined == 0


@pytest.mark.parametrize("name", GOLDEN_STORES)
def test_g48_ended_transactions_of_apache_brokers_are_known_as_ended(name: str, tmp_path: Path) -> None:
    found = rebuild(open_golden(name, tmp_path), TransactionConfig())
    for transaction in expected(name)["transactions"]:
        for offset in transaction["halfQueueOffsets"]:
            decision = found.table.decisions[offset]
            if transaction["state"] == "open":
                assert decision is Decision.NONE
            elif transaction["state"] == "committed, op record missing":
                assert decision is Decision.COMMITTED
            else:
                assert decision is not Decision.NONE, transaction


def test_hole4_commits_of_a_killed_5x_broker_without_op_are_recognised(tmp_path: Path) -> None:
    """Golden row 44: 5.5.0 itself delivers these two a second time."""
    found = rebuild(open_golden("5.5.0-killed", tmp_path), TransactionConfig())
    assert sorted(found.missing_ops) == [([15], Decision.COMMITTED), ([16], Decision.COMMITTED)]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "store")


def again(lab: Lab) -> Rebuilt:
    return rebuild(lab.store, lab.config)


def append(lab: Lab, *records: NewRecord) -> None:
    lab.store.append(records)
    lab.clock.run()


def stored(lab: Lab, half: Half) -> StoredMessage:
    record = lab.store.read(half.place[1])
    assert record is not None
    return record


def final_of(lab: Lab, half: Half, **changes: Any) -> NewRecord:
    record = new_record_of(stored(lab, half))
    record.topic, record.queue_id, record.sys_flag = TOPIC, 1, flags.COMMITTED
    record.prepared_transaction_offset = half.place[1]
    for name, value in changes.items():
        setattr(record, name, value)
    return record


def copy_of(lab: Lab, half: Half, checks: str, first: int | None = None) -> NewRecord:
    """What an Apache broker writes when it checks a half."""
    record = new_record_of(stored(lab, half))
    decoded = properties.decode(record.properties) | {"TRANSACTION_CHECK_TIMES": checks}
    if first is not None:
        decoded["TRAN_PREPARED_QUEUE_OFFSET"] = str(first)
    record.properties = properties.encode(decoded)
    return record


def test_g37_hole3_a_final_message_without_its_op_is_completed_once(lab: Lab) -> None:
    """G37: the broker died between the two records of a commit."""
    half, other = lab.half(), lab.half()
    append(lab, final_of(lab, half))
    for _ in range(3):
        lab.coordinator.close()
        (lab.root / "gantry" / "decisions").unlink()
        lab.crash()
        lab.open()
        assert [left.queue_offset for left in lab.coordinator.table] == [other.place[0]]
        assert [op.body for op in lab.ops()] == [b"0"]
    session = lab.online()
    assert lab.commit(session, half).result is DONE
    assert lab.roll_back(session, half).result is Refusal.CONFLICT
    assert len(lab.delivered()) == 1


def test_hole3_with_the_decisions_file_the_tail_alone_is_read(lab: Lab) -> None:
    half = lab.half()
    lab.coordinator.close()
    append(lab, final_of(lab, half))
    lab.crash()
    lab.open()
    assert len(lab.coordinator.table) == 0
    assert [op.body for op in lab.ops()] == [b"0"]


@pytest.mark.parametrize(
    "changes",
    [
        {"topic": "Elsewhere"},
        {"body": b"forged"},
        {"properties": "UNIQ_KEY\x01other\x02"},
        {"sys_flag": 0},
        {"sys_flag": flags.PREPARED},
        {"prepared_transaction_offset": 1},
    ],
)
def test_a_record_that_is_not_the_final_message_ends_nothing(lab: Lab, changes: dict[str, Any]) -> None:
    half = lab.half()
    append(lab, final_of(lab, half, **changes))
    assert [left.queue_offset for left in again(lab).table] == [0]


def test_x4_a_final_message_in_another_queue_ends_its_half(lab: Lab) -> None:
    """Its topic had fewer queues when it was committed."""
    append(lab, final_of(lab, lab.half(), queue_id=0))
    assert len(again(lab).table) == 0


def test_a_parked_copy_without_its_op_is_completed(lab: Lab) -> None:
    half = lab.half()
    record = copy_of(lab, half, "15")
    record.topic = PARKED
    append(lab, record)
    found = again(lab)
    assert len(found.table) == 0
    assert found.missing_ops == [([0], Decision.PARKED)]


def test_a_parked_half_that_was_resumed_is_open(lab: Lab) -> None:
    half = lab.half()
    record = copy_of(lab, half, "15")
    record.topic = PARKED
    append(lab, record, copy_of(lab, half, "0"))
    found = again(lab)
    assert [left.queue_offsets() for left in found.table] == [[1]]
    assert found.missing_ops == [([0], Decision.PARKED)]


def test_hole1_copies_are_one_transaction(lab: Lab) -> None:
    half = lab.half()
    append(lab, copy_of(lab, half, "1"), copy_of(lab, half, "2"))
    lab.coordinator.rebuild()
    assert [left.queue_offsets() for left in lab.coordinator.table] == [[0, 1, 2]]
    session = lab.online()
    assert lab.commit(session, half).result is DONE
    assert [op.body for op in lab.ops()] == [b"0", b"1", b"2"]
    for record in lab.halves():
        place = (record.queue_offset, record.log_offset)
        assert lab.end(session, half, Resolution.COMMIT, place=place).result is DONE
        assert lab.end(session, half, Resolution.ROLLBACK, place=place).result is Refusal.CONFLICT
    assert len(lab.delivered()) == 1


@pytest.mark.parametrize("settled", [0, 1, 2])
def test_hole1_an_op_for_any_copy_settles_all(lab: Lab, settled: int) -> None:
    half = lab.half()
    append(lab, copy_of(lab, half, "1"), copy_of(lab, half, "2"), op_record(settled, Decision.COMMITTED, 0, HOST))
    found = again(lab)
    assert len(found.table) == 0
    assert [found.table.decisions[offset] for offset in range(3)] == [Decision.COMMITTED] * 3


def test_hole8_an_immunity_copy_belongs_to_its_first(lab: Lab) -> None:
    half = lab.half()
    append(lab, copy_of(lab, half, "1", first=0), op_record(0, Decision.SETTLED, 0, HOST))
    assert len(again(lab).table) == 0


def test_a_key_that_was_used_again_is_another_transaction(lab: Lab) -> None:
    session = lab.online()
    first = lab.half(key="K")
    lab.commit(session, first)
    lab.clock.advance(1)
    lab.half(key="K")
    assert [left.queue_offsets() for left in again(lab).table] == [[1]]


def test_ages_count_from_the_first_copy(lab: Lab) -> None:
    half = lab.half()
    first = stored(lab, half).store_timestamp
    lab.clock.advance(100)
    append(lab, copy_of(lab, half, "1"))
    (left,) = again(lab).table
    assert left.stored_at == first


@pytest.mark.parametrize("bodies", [[b"0", b"2"], [b"2", b"0"], [b"0,2,"], [b"2,0,7,junk,", b"999999999999999999"]])
def test_g43_ops_of_all_versions_in_any_order(lab: Lab, bodies: list[bytes]) -> None:
    for _ in range(3):
        lab.half()
    ops = [op_record(0, Decision.SETTLED, 0, HOST) for _ in bodies]
    for op, body in zip(ops, bodies, strict=True):
        op.body = body
    append(lab, *ops)
    assert [left.queue_offset for left in again(lab).table] == [1]


def test_g47_a_record_that_is_no_half_is_quarantined(lab: Lab) -> None:
    append(lab, NewRecord(HALF, 0, b"?", "TRAN_MSG\x01true\x02", 0, HOST))
    lab.half()
    found = again(lab)
    assert found.quarantined == 1
    assert [left.queue_offset for left in found.table] == [1]
    assert found.table.decisions[0] is Decision.QUARANTINED


def test_hole12_committed_offsets_are_no_evidence(lab: Lab) -> None:
    """The offsets of CID_RMQ_SYS_TRANS may be newer than what a power cut left of the log; nothing is passed over."""
    for _ in range(3):
        lab.half()
    lab.offsets.committed = {HALF: 1250, OP: 1250}
    lab.coordinator.rebuild()
    assert len(lab.coordinator.table) == 3


def test_the_file_of_decisions_and_the_op_queue_say_the_same(lab: Lab) -> None:
    session = lab.online()
    halves = [lab.half() for _ in range(30)]
    for number, half in enumerate(halves):
        if number == 15:
            lab.clock.advance(61)  # the file is written in the middle of it
        if number % 3 == 0:
            lab.commit(session, half)
        elif number % 3 == 1:
            lab.roll_back(session, half)
    lab.crash()
    lab.open()
    with_file = [(left.queue_offset, left.log_offset) for left in lab.coordinator.table]
    without = again(lab)
    assert with_file == [(left.queue_offset, left.log_offset) for left in without.table]
    assert with_file == [half.place for half in halves[2::3]]
    assert [lab.coordinator.table.decisions[n] for n in range(30)] == [without.table.decisions[n] for n in range(30)]


def damage(lab: Lab, place: int, old: bytes) -> None:
    """Flip a bit of ``old`` in the record at ``place``, behind the broker's back."""
    lab.coordinator.close()
    lab.crash()
    (log,) = (lab.root / "commitlog").iterdir()
    data = bytearray(log.read_bytes())
    data[data.index(old, place)] ^= 1
    log.write_bytes(bytes(data))
    for name in ("decisions", "open-halves"):  # with the notes it is found when it is used
        (lab.root / "gantry" / name).unlink(missing_ok=True)


def test_g47_a_half_with_a_damaged_body_is_quarantined(lab: Lab) -> None:
    bodies = (b"first", b"second", b"third")
    first, second, third = (lab.half(body=body) for body in bodies)
    damage(lab, second.place[1], b"second")
    lab.open()
    assert [left.queue_offset for left in lab.coordinator.table] == [first.place[0], third.place[0]]
    assert lab.coordinator.counts.quarantined == 1


def test_a_damaged_op_message_is_written_again(lab: Lab) -> None:
    """Its final message is still there."""
    session = lab.online()
    lab.roll_back(session, lab.half())
    half = lab.half()
    lab.commit(session, half)
    lab.roll_back(session, lab.half())
    damage(lab, lab.ops()[1].log_offset + 80, b"1")
    lab.open()
    assert len(lab.coordinator.table) == 0
    assert sorted(op.body for op in lab.ops()) == [b"0", b"1", b"2"]
    assert lab.commit(session, half).result is DONE
    assert len(lab.delivered()) == 1


def test_a_parked_copy_of_nothing_parks_nothing(lab: Lab) -> None:
    half = lab.half()
    unreadable, unrelated = copy_of(lab, half, "15"), copy_of(lab, half, "15")
    for record in (unreadable, unrelated):
        record.topic = PARKED
    unreadable.properties = "KEYS\x01k\x02"
    unrelated.born_timestamp += 1
    append(lab, unreadable, unrelated)
    assert [left.queue_offset for left in again(lab).table] == [0]
