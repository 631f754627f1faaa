"""A range gives the same rows every time, or fails loudly."""

from __future__ import annotations

import zlib
from functools import partial

import pyarrow as pa
import pytest

from gantrymq.client.consuming.filters import filter_of
from gantrymq.errors import RemoteProtocolError, RequestRejected, Unreachable
from gantrymq.message import flags
from gantrymq.message.queues import MessageQueue
from gantrymq.protocol.compression import decompress
from gantrymq.protocol.hosts import pack_host
from gantrymq.runtime.rng import SystemRng
from gantrymq.spark.columns import decode
from gantrymq.spark.patience import Patience
from gantrymq.spark.source.partitions import QueueRange
from gantrymq.spark.source.reading import DataLost, RangeReader, joined, one_ahead
from tests.spark.fakes import FakeBroker, SteppedClock, away, make_record
from tests.support.records import encode_record

HOST = pack_host("1.2.3.4:5")

QUEUE = MessageQueue("orders", "broker-a", 2)


def reader(broker: FakeBroker, *, fail: bool = True, rows: int = 100, clock: SteppedClock | None = None) -> RangeReader:
    patience = Patience(10_000, clock or SteppedClock(), SystemRng(1))
    return RangeReader(broker, patience, fail_on_data_loss=fail, pull_max_rows=rows)


def offsets(reading: RangeReader, begin: int, end: int) -> list[int]:
    batches = reading.batches(QueueRange(QUEUE, begin, end), ("queue_offset", "body"))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert all(row["body"] == b"body %d" % row["queue_offset"] for row in rows)
    return [row["queue_offset"] for row in rows]


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.fill(QUEUE, 1000)
    return made


@pytest.mark.parametrize(("begin", "end"), [(0, 1000), (0, 1), (999, 1000), (31, 33), (5, 905)])
def test_exactly_the_range(broker: FakeBroker, begin: int, end: int) -> None:
    assert offsets(reader(broker), begin, end) == list(range(begin, end))


def test_what_comes_behind_the_range_is_cut_off(broker: FakeBroker) -> None:
    """A broker may answer more than it was asked for."""
    broker.answers_at_most = 64
    generous = reader(broker)
    generous._pull_max_rows = 64
    assert offsets(generous, 10, 20) == list(range(10, 20))


def test_small_answers_are_put_together(broker: FakeBroker) -> None:
    """An Apache broker answers at most 32 messages, which would be far too small batches for Spark."""
    batches = list(reader(broker).batches(QueueRange(QUEUE, 0, 1000), ("queue_offset",)))
    assert [batch.num_rows for batch in batches] == [128] * 7 + [104]


def test_a_broker_that_restarts_in_the_middle(broker: FakeBroker) -> None:
    reading = reader(broker).batches(QueueRange(QUEUE, 0, 1000), ("queue_offset",))
    first = next(reading)
    broker.refusals = [*away(5), RequestRejected(14, "starting"), *away(2)]
    rest = [row["queue_offset"] for batch in reading for row in batch.to_pylist()]
    assert first.num_rows + len(rest) == 1000


def test_a_broker_that_stays_away(broker: FakeBroker) -> None:
    clock = SteppedClock()
    broker.refusals = away(10_000)
    with pytest.raises(Unreachable):
        offsets(reader(broker, clock=clock), 0, 10)
    assert 9 <= clock.now - 1000 <= 10


def test_a_refusal_that_cannot_pass_is_not_repeated(broker: FakeBroker) -> None:
    broker.refusals = [RequestRejected(16, "no permission")]
    with pytest.raises(RequestRejected, match="no permission"):
        offsets(reader(broker), 0, 10)
    assert broker.pulls == 1


def test_messages_deleted_by_age(broker: FakeBroker) -> None:
    broker.minimum[QUEUE] = 40
    with pytest.raises(DataLost, match="messages 10 to 39 of orders/broker-a/2"):
        offsets(reader(broker), 10, 50)
    assert offsets(reader(broker, fail=False), 10, 50) == list(range(40, 50))


def test_messages_missing_in_the_middle(broker: FakeBroker) -> None:
    for gone in range(60, 70):
        del broker.logs[QUEUE][gone]
    with pytest.raises(DataLost, match="messages 60 to 69"):
        offsets(reader(broker), 0, 100)
    assert len(offsets(reader(broker, fail=False), 0, 100)) == 90


def test_all_messages_of_a_range_missing(broker: FakeBroker) -> None:
    for gone in range(1000):
        if gone != 999:
            del broker.logs[QUEUE][gone]
    with pytest.raises(DataLost, match="messages 100 to 199"):
        offsets(reader(broker), 100, 200)
    assert offsets(reader(broker, fail=False), 100, 200) == []


def test_a_queue_that_became_shorter_is_waited_for_then_reported(broker: FakeBroker) -> None:
    """A broker that has just restarted may know less for a moment; one that lost its disk knows less for ever."""
    clock = SteppedClock()
    with pytest.raises(DataLost, match="the queue now ends at 1000"):
        offsets(reader(broker, clock=clock), 990, 1010)
    assert clock.now - 1000 > 9
    assert offsets(reader(broker, fail=False), 990, 1010) == list(range(990, 1000))


def test_garbage_is_never_taken_for_messages(broker: FakeBroker) -> None:
    broker.logs[QUEUE][5] = b"\0" * 50
    with pytest.raises(RemoteProtocolError):
        offsets(reader(broker), 0, 10)


def test_small_ranges_of_a_task_become_one_batch_in_order() -> None:
    queues = [MessageQueue("orders", "broker-a", number) for number in range(20)]
    broker = FakeBroker()
    for queue in queues:
        broker.fill(queue, 5)
    parts = [QueueRange(queue, 1, 4) for queue in queues]
    columns = ("queue_id", "queue_offset", "body", "properties")
    (batch,) = reader(broker).all_batches(parts, columns)
    places = [(row["queue_id"], row["queue_offset"]) for row in batch.to_pylist()]
    assert places == [(queue.queue_id, offset) for queue in queues for offset in (1, 2, 3)]
    alone = [row for part in parts for one in reader(broker).batches(part, columns) for row in one.to_pylist()]
    assert batch.to_pylist() == alone
    large = [QueueRange(queues[0], 0, 2), *parts[1:], QueueRange(queues[0], 2, 5)]
    found = list(reader(broker, rows=4).all_batches(large, ("queue_offset",)))
    assert sum(one.num_rows for one in found) == 5 + 19 * 3


def test_a_lost_range_among_small_ones_fails_the_task(broker: FakeBroker) -> None:
    other = MessageQueue("orders", "broker-a", 3)
    broker.fill(other, 10)
    broker.minimum[QUEUE] = 8
    parts = [QueueRange(other, 0, 10), QueueRange(QUEUE, 5, 15)]
    with pytest.raises(DataLost, match="messages 5 to 7 of"):
        list(reader(broker).all_batches(parts, ("queue_offset",)))
    (batch,) = reader(broker, fail=False).all_batches(parts, ("queue_offset",))
    assert batch.to_pydict()["queue_offset"] == [*range(10), *range(8, 15)]


def test_what_fails_among_small_ranges_is_asked_once_more() -> None:
    queues = [MessageQueue("orders", "broker-a", number) for number in range(20)]
    broker = FakeBroker()
    for queue in queues:
        broker.fill(queue, 5)
    broker.answers_at_most = 3
    broker.refusals = [*away(2), RequestRejected(14, "starting"), *away(1)]
    (batch,) = reader(broker).all_batches([QueueRange(queue, 0, 5) for queue in queues], ("queue_offset",))
    assert batch.to_pydict()["queue_offset"] == [*range(5)] * 20 and not broker.refusals
    broker.refusals = [RequestRejected(16, "not readable") for _ in range(40)]
    with pytest.raises(RequestRejected, match="not readable"):
        list(reader(broker).all_batches([QueueRange(queue, 0, 5) for queue in queues], ("queue_offset",)))


def test_joined_batches_have_the_same_rows() -> None:
    batches = [pa.RecordBatch.from_pydict({"n": list(range(begin, begin + 3))}) for begin in range(0, 21, 3)]
    found = list(joined(batches, 7))
    assert [batch.num_rows for batch in found] == [9, 9, 3]
    assert [n for batch in found for n in batch.to_pydict()["n"]] == list(range(21))
    assert list(joined([], 7)) == []


def test_one_ahead_keeps_order_and_passes_errors_on() -> None:
    def items() -> object:
        yield 1
        yield 2
        raise Unreachable("x", "gone")

    ahead = one_ahead(items())  # type: ignore[arg-type, var-annotated]
    assert next(ahead) == 1
    assert next(ahead) == 2
    with pytest.raises(Unreachable):
        next(ahead)


TAGS = {0: "TAGS\x01vip\x02", 1: "TAGS\x01plain\x02KEYS\x01vip\x02", 2: ""}


def test_a_filter_leaves_gaps_that_are_no_loss(broker: FakeBroker) -> None:
    """The broker compares hashes of tags, so this one returns too much; the reader compares the tags themselves."""
    for offset in range(1000):
        broker.logs[QUEUE][offset] = make_record(QUEUE, offset, properties=TAGS[offset % 3])
    for gone in [*range(300, 420), 17, 999]:
        del broker.logs[QUEUE][gone]  # of other tags, as far as the reader knows
    broker.logs[QUEUE][999] = b""
    patience = Patience(10_000, SteppedClock(), SystemRng(1))
    selective = RangeReader(
        broker, patience, fail_on_data_loss=True, pull_max_rows=100, selection=filter_of("vip || other")
    )
    expected = [offset for offset in range(0, 999, 3) if not 300 <= offset < 420 and offset != 17]
    assert offsets(selective, 0, 1000) == expected


def test_messages_that_expired_are_lost_also_for_a_filter(broker: FakeBroker) -> None:
    broker.minimum[QUEUE] = 10
    patience = Patience(10_000, SteppedClock(), SystemRng(1))
    selective = RangeReader(
        broker, patience, fail_on_data_loss=True, pull_max_rows=100, selection=filter_of("*", "a > 1")
    )
    with pytest.raises(DataLost, match="messages 5 to 9"):
        offsets(selective, 5, 20)


@pytest.mark.parametrize("body", [zlib.compress(bytes(1000)), b"damaged"])
def test_a_body_that_cannot_be_decompressed_is_named_and_can_be_left_out(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    """One that grows too large, or that is not what its flag says."""
    monkeypatch.setattr(decode, "decompress", partial(decompress, most=100))
    for offset in (3, 4, 9):
        record = encode_record(b"orders", body, b"", 2, offset, 0, 1, HOST, 2, HOST, 0, flags.COMPRESSED)
        broker.logs[QUEUE][offset] = record
    with pytest.raises(DataLost, match="messages 3 to 3 of orders/broker-a/2 cannot be read: the body"):
        offsets(reader(broker), 0, 12)
    assert offsets(reader(broker, fail=False), 0, 12) == [0, 1, 2, 5, 6, 7, 8, 10, 11]
    assert offsets(reader(broker, fail=False), 3, 5) == []
