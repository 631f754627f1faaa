"""Records of the revive topic, byte for byte as Apache 5.5.0 writes them (printed by its own classes)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.broker.pop.check_point import (
    Ack,
    CheckPoint,
    ack_body,
    ack_tag,
    check_point_body,
    decode,
    record_properties,
)
from gantrymq.errors import RemoteProtocolError
from gantrymq.message.message import StoredMessage
from gantrymq.message.queues import LogOffset, QueueOffset

POINT = CheckPoint("T", "G", 1, 5, 1_700_000_000_000, 60_000, "b", (0, 2))


def record(tag: str, body: bytes) -> StoredMessage:
    return StoredMessage(
        "rmq_sys_REVIVE_LOG_C", 0, QueueOffset(0), LogOffset(0), 100, 0, 0, 0, "127.0.0.1:1", 0, "127.0.0.1:1", 0,
        LogOffset(0), 0, body, record_properties(tag, 1),
    )  # fmt: skip


def test_a_check_point_is_apaches() -> None:
    assert check_point_body(POINT) == (
        b'{"bm":0,"bn":"b","c":"G","d":[0,2],"it":60000,"n":2,"pt":1700000000000,"q":1,"reviveTime":1700000060000,'
        b'"ro":0,"so":5,"sp":false,"t":"T"}'
    )


def test_acknowledgements_are_apaches() -> None:
    one = b'{"ao":7,"bn":"b","c":"G","pt":1700000000000,"q":1,"so":5,"t":"T"}'
    several = b'{"ao":-1,"aol":[5,7],"bn":"b","c":"G","pt":1700000000000,"q":1,"so":5,"t":"T"}'
    assert (ack_tag([7]), ack_body(POINT.key, [7])) == ("ack", one)
    assert (ack_tag([5, 7]), ack_body(POINT.key, [5, 7])) == ("bAck", several)
    assert decode(record("ack", one), "b") == Ack(POINT.key, (7,))
    assert decode(record("bAck", several), "b") == Ack(POINT.key, (5, 7))


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1)


@given(
    NAMES, NAMES, st.integers(0, 99), st.integers(0, 2**40), st.integers(0, 2**42), st.integers(0, 2**40), NAMES,
    st.lists(st.integers(0, 900), min_size=1, max_size=32, unique=True).map(lambda found: tuple(sorted(found))),
    st.booleans(),
)  # fmt: skip
def test_a_check_point_comes_back(
    topic: str, group: str, queue: int, start: int, popped: int, invisible: int, broker: str,
    distances: tuple[int, ...], suspend: bool,
) -> None:  # fmt: skip
    point = CheckPoint(topic, group, queue, start, popped, invisible, broker, distances, suspend)
    assert decode(record("ck", check_point_body(point)), "other") == point


def test_old_forms_are_understood() -> None:
    body = b'{"bm":0,"c":"G","it":60000,"n":3,"pt":7,"q":1,"ro":0,"so":5,"t":"T"}'
    assert decode(record("ck", body), "b") == CheckPoint("T", "G", 1, 5, 7, 60_000, "b", (0, 1, 2))
    assert decode(record("other", b"anything"), "b") is None


@given(st.sampled_from(["ck", "ack", "bAck"]), st.binary())
def test_any_body_is_understood_or_refused(tag: str, body: bytes) -> None:
    try:
        decode(record(tag, body), "b")
    except RemoteProtocolError as error:
        assert "revive topic" in str(error)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"t":"T"}', b'{"c":"G","so":"x"}'])
def test_damaged_bodies(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode(record("ck", body), "b")


@pytest.mark.parametrize("count", [128, 1 << 30, (1 << 63) - 1])
def test_nobody_counts_to_any_number_a_body_names(count: int) -> None:
    body = b'{"bm":0,"c":"G","it":60000,"n":%d,"pt":7,"q":1,"ro":0,"so":5,"t":"T"}'
    with pytest.raises(RemoteProtocolError, match="revive topic"):
        decode(record("ck", body % count), "b")
    most = decode(record("ck", body % 127), "b")
    assert isinstance(most, CheckPoint) and len(most.distances) == 127
