"""The bytes of the AutoSwitch protocol, as recorded from Apache's brokers (reference "replication", section 2), and the
text of a record."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.broker.replication import auto_switch
from gantrymq.broker.replication.auto_switch import Confirmed, Hello, PrimaryReader, ReplicaReader, Welcome
from gantrymq.broker.replication.election.record import Member, Record, decode, encode, yielding
from gantrymq.broker.replication.frames import Frame
from gantrymq.errors import RemoteProtocolError

HELLO = bytes.fromhex("00000001 0000 0000 0000000000000002")
REPORT = bytes.fromhex("00000002 000000000000830f")
DATA = bytes.fromhex("00000002 00000003 000000000000830f 00000002 000000000000830f 00000000019ec96f 616263")
WELCOME_OF_APACHE = bytes.fromhex("00000001 0000000c 000000000166bc86 00000002 00000001 0000000000000000")


def test_what_is_sent_is_what_apache_sends() -> None:
    assert auto_switch.encode_hello(2) == HELLO
    assert auto_switch.encode_report(33551) == REPORT
    assert auto_switch.encode_data(33551, b"abc", 2, 33551, 27183471) == DATA


@given(st.integers(1, 40))
def test_however_it_is_cut_it_is_read(size: int) -> None:
    replica, primary = ReplicaReader(), PrimaryReader()
    stream = HELLO + REPORT + REPORT
    found = [item for at in range(0, len(stream), size) for item in replica.feed(stream[at : at + size])]
    assert found == [Hello(2), 33551, 33551]
    stream = WELCOME_OF_APACHE + DATA + auto_switch.encode_welcome(7, 3)
    read = [item for at in range(0, len(stream), size) for item in primary.feed(stream[at : at + size])]
    assert read == [
        Welcome(23510150, 2, ((1, 0),)),
        (Frame(33551, b"abc"), Confirmed(2, 33551, 27183471)),
        Welcome(7, 3),
    ]


@given(st.binary(max_size=80))
def test_other_bytes_are_an_error_or_wait_for_more(data: bytes) -> None:
    for reader in (ReplicaReader(), PrimaryReader()):
        with contextlib.suppress(RemoteProtocolError):
            reader.feed(data)


def test_a_record_survives_its_text() -> None:
    record = Record(7, Member(5, 2, "10.0.0.2:10911", "10.0.0.2:10912"), frozenset({5, 6}), 99)
    assert decode(encode(record)) == record
    assert decode(encode(yielding(record, 6))).yields == 6


def test_a_record_of_a_version_without_handover_is_read() -> None:
    text = json.loads(encode(Record(7, Member(5, 2, "10.0.0.2:10911", "10.0.0.2:10912"), frozenset({5, 6}), 99)))
    del text["yields"]
    assert decode(json.dumps(text).encode()).yields == 0


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"version": 2}', b"\xff", b'{"version": 1, "epoch": "x"}'])
def test_what_is_not_a_record_is_said(text: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="record"):
        decode(text)
