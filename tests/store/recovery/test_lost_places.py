"""What can be learned from a damaged record about its position in its queue."""

from __future__ import annotations

import random

import pytest

from gantrymq.protocol.hosts import pack_host
from gantrymq.store.recovery.lost_places import LostPlace, lost_place
from tests.support.records import encode_record

HOST = pack_host("127.0.0.1:10911")
BODY = b'{"order": 42, "state": "paid"}' * 4
PROPERTIES = b"KEYS\x0142\x02UNIQ_KEY\x01" + b"7F0000010000" * 2 + b"\x02"
TOPIC = b"%RETRY%points"
PLACE = LostPlace(TOPIC.decode(), 3, 7)
LENGTHS = {"body": (84, 4), "topic": (88 + len(BODY), 1), "properties": (89 + len(BODY) + len(TOPIC), 2)}


def a_record(body: bytes = BODY) -> bytearray:
    return bytearray(encode_record(TOPIC, body, PROPERTIES, 3, 7, 1000, 1, HOST, 2, HOST))


@pytest.mark.parametrize("what", LENGTHS)
def test_a_wrong_byte_in_a_length_hides_no_topic_though_nothing_is_known_of_it(what: str) -> None:
    """Always when it is one bit; another byte may have two explanations."""
    at, size = LENGTHS[what]
    right = 0
    for place in range(at, at + size):
        for wrong in range(1, 256):
            record = a_record()
            record[place] ^= wrong
            reported = lost_place(bytes(record), ())
            assert reported == PLACE or (wrong.bit_count() > 1 and reported is None), (place - at, wrong)
            right += reported == PLACE
    assert right > 0.98 * 255 * size


@pytest.mark.parametrize("seed", range(30))
def test_what_tells_nothing_is_not_believed(seed: int) -> None:
    rng = random.Random(seed)
    record = a_record()
    for at, size in LENGTHS.values():
        record[at : at + size] = rng.randbytes(size)
    reported = lost_place(bytes(record), ())
    assert reported in (None, PLACE), f"seed {seed}"


def test_of_two_explanations_none_is_believed() -> None:
    body = b"this body has another end: \x05Other\0\0, and goes on"
    record = a_record(body)
    record[87] = body.index(b"\x05")  # or it is a record of Other, and the length of its properties is wrong
    assert lost_place(bytes(record), ()) is None
    assert lost_place(bytes(record), (TOPIC,)) == PLACE


def test_two_wrong_lengths_need_a_topic_that_is_known() -> None:
    record = a_record()
    at, size = LENGTHS["properties"]
    record[at : at + size] = b"\x7e\x7e"
    assert lost_place(bytes(record), ()) is None
    assert lost_place(bytes(record), (TOPIC,)) == PLACE


def test_a_topic_that_is_known_may_have_any_name() -> None:
    """Apache's brokers have some of their own; here only the body is damaged."""
    topic = b"long." * 26
    record = bytearray(encode_record(topic, BODY, PROPERTIES, 3, 7, 1000, 1, HOST, 2, HOST))
    record[90] ^= 1
    assert lost_place(bytes(record), ()) is None
    assert lost_place(bytes(record), (topic,)) == LostPlace(topic.decode(), 3, 7)
