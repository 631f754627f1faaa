"""A half message that could not be parked later is refused when it is sent, however long its unique key is."""

from __future__ import annotations

import pytest

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.operations.admission import Target
from gantrymq.broker.operations.send_half import HalfSends
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.message.sizes import MAX_PROPERTIES_BYTES
from gantrymq.protocol.headers.send import SendMessage
from gantrymq.store.values import NewRecord
from gantrymq.transactions.records.half import parked_record, with_real_place
from tests.broker.operations.test_admission import admission
from tests.support.halves import half_record

TARGET = Target(4, 4, None, False)
ROOM = MAX_PROPERTIES_BYTES


class Kept:
    """Takes every half message."""

    def __init__(self) -> None:
        self.records: list[tuple[NewRecord, str]] = []

    def put_half(self, record: NewRecord, group: str, unique_key: str, done: object) -> None:
        self.records.append((record, unique_key))


def send(key: str, filler: str = "") -> list[tuple[NewRecord, str]]:
    kept = Kept()
    sends = HalfSends(LiveConfig(BrokerConfig()), admission(), kept)
    text = f"TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01{key}\x02filler\x01{filler}\x02"
    record = NewRecord("Orders", 3, b"paid", text, 0, bytes(8))
    header = SendMessage(
        producer_group="PG", topic="Orders", default_topic="TBW102", default_topic_queue_nums=4, queue_id=3,
        sys_flag=4, born_timestamp=0, flag=0,
    )  # fmt: skip
    sends.send(header, record, TARGET, "CLUSTER\x01C\x02", key, None)
    return kept.records


@pytest.mark.parametrize(("length", "letter"), [(8_000, "x"), (15_500, "x"), (5_000, "漢")])
def test_a_half_with_a_long_key_that_is_taken_can_be_parked(length: int, letter: str) -> None:
    ((record, key),) = send(letter * length)
    half = half_record(record, "Orders", 3, key)
    assert len(parked_record(half, 1, 10**9).properties.encode()) <= ROOM
    assert half.properties == with_real_place(record.properties, "Orders", 3, key)


@pytest.mark.parametrize(("length", "letter"), [(16_150, "x"), (16_250, "x"), (5_400, "漢")])
def test_a_half_whose_key_leaves_no_room_is_refused(length: int, letter: str) -> None:
    """Its key is stored twice."""
    with pytest.raises(Refused) as refused:
        send(letter * length)
    assert refused.value.reason is Refusal.MESSAGE_ILLEGAL
