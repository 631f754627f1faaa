from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import LocalProtocolError, MessageIllegal, RemoteProtocolError
from gantrymq.message import flags
from gantrymq.message.message import StoredMessage
from gantrymq.message.queues import LogOffset, QueueOffset
from gantrymq.protocol import compression, stored_message
from gantrymq.protocol.stored_message import decode_record, encode_stored, pack_host, scan, to_view
from tests.support.records import encode_record

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
PORT = st.integers(0, 65535)
HOST_V4 = st.builds("{}:{}".format, st.ip_addresses(v=4), PORT)
HOST_V6 = st.builds("[{}]:{}".format, st.ip_addresses(v=6), PORT)
HOST = HOST_V4 | HOST_V6
TOPIC = st.text(max_size=300)
V4 = pack_host("10.0.0.1:10911")
V6 = pack_host("[2001:db8::1]:10911")


def make(**changes: object) -> bytes:
    fields: dict[str, object] = {
        "topic": b"Orders",
        "body": b"hello",
        "properties_text": b"TAGS\x01A\x02",
        "queue_id": 1,
        "queue_offset": 2,
        "log_offset": 3,
        "born_timestamp": 1700000000000,
        "born_host": V4,
        "store_timestamp": 1700000000001,
        "store_host": V4,
    }
    return encode_record(**{**fields, **changes})  # type: ignore[arg-type]


@st.composite
def stored(draw: st.DrawFn) -> StoredMessage:
    """A message whose size and flags fit its other fields, as the store makes them."""
    born_host, store_host = draw(HOST), draw(HOST)
    topic, text, body = draw(TOPIC), draw(st.text(max_size=100)), draw(st.binary(max_size=100))
    sys_flag = draw(INT) & ~(flags.BORN_HOST_V6 | flags.STORE_HOST_V6)
    sys_flag |= flags.BORN_HOST_V6 if born_host[0] == "[" else 0
    sys_flag |= flags.STORE_HOST_V6 if store_host[0] == "[" else 0
    size = stored_message.record_size(
        len(topic.encode()), len(body), len(text.encode()), len(pack_host(born_host)), len(pack_host(store_host))
    )
    return StoredMessage(
        topic=topic,
        queue_id=draw(INT),
        queue_offset=QueueOffset(draw(LONG)),
        log_offset=LogOffset(draw(LONG)),
        size=size,
        flag=draw(INT),
        sys_flag=sys_flag,
        born_timestamp=draw(LONG),
        born_host=born_host,
        store_timestamp=draw(LONG),
        store_host=store_host,
        reconsume_times=draw(INT),
        prepared_transaction_offset=LogOffset(draw(LONG)),
        body_crc=stored_message.crc32(body) & stored_message.CRC_MASK,
        body=body,
        properties_text=text,
    )


@given(stored())
def test_a_record_decodes_to_what_was_encoded(message: StoredMessage) -> None:
    record = encode_stored(message)
    assert len(record) == message.size
    assert decode_record(record) == message


@given(stored(), st.binary(max_size=20), st.binary(max_size=20))
def test_a_record_is_found_between_other_bytes(message: StoredMessage, before: bytes, behind: bytes) -> None:
    data = before + encode_stored(message) + behind
    assert decode_record(data, len(before)) == message
    assert decode_record(memoryview(data), len(before)) == message
    assert decode_record(bytearray(data), len(before)) == message


@given(st.lists(stored(), max_size=4))
def test_scan_yields_every_record(messages: list[StoredMessage]) -> None:
    assert list(scan(b"".join(map(encode_stored, messages)))) == messages


def test_scan_stops_with_an_error_where_the_records_end() -> None:
    scanned = scan(make() + b"\0\0")
    assert next(scanned).body == b"hello"
    with pytest.raises(RemoteProtocolError, match="cut off"):
        next(scanned)


@given(stored())
def test_every_cut_of_a_record_is_refused(message: StoredMessage) -> None:
    record = encode_stored(message)
    for length in range(len(record)):
        with pytest.raises(RemoteProtocolError):
            decode_record(record[:length])


@given(stored(), st.data())
def test_a_flipped_bit_never_raises_anything_but_the_documented_error(
    message: StoredMessage, data: st.DataObject
) -> None:
    record = bytearray(encode_stored(message))
    bit = data.draw(st.integers(0, len(record) * 8 - 1))
    record[bit // 8] ^= 1 << bit % 8
    with contextlib.suppress(RemoteProtocolError):
        decode_record(record)


@given(st.binary(max_size=200), st.integers(-5, 205))
def test_any_bytes_decode_or_raise_the_documented_error(data: bytes, offset: int) -> None:
    for magic in (stored_message.MAGIC_V1, stored_message.MAGIC_V2):
        marked = data[:4] + magic.to_bytes(4, "big") + data[8:]
        with contextlib.suppress(RemoteProtocolError):
            decode_record(marked, offset)


def test_only_the_body_crc_is_checked_and_only_on_request() -> None:
    record = make()
    torn = record.replace(b"hello", b"hellO")
    with pytest.raises(RemoteProtocolError, match="CRC"):
        decode_record(torn)
    assert decode_record(torn, check=False).body == b"hellO"
    unchecked = torn[:8] + bytes(4) + torn[12:]
    assert decode_record(unchecked).body == b"hellO"


@pytest.mark.parametrize("length", [0, 127, 128, 32767])
def test_long_topics_take_the_second_layout(length: int) -> None:
    record = make(topic=b"t" * length)
    magic = stored_message.MAGIC_V1 if length <= 127 else stored_message.MAGIC_V2
    assert stored_message.read_size_and_magic(record) == (len(record), magic)
    assert decode_record(record).topic == "t" * length


def test_host_lengths_decide_the_flags() -> None:
    both = flags.BORN_HOST_V6 | flags.STORE_HOST_V6
    assert decode_record(make(sys_flag=both | flags.PREPARED)).sys_flag == flags.PREPARED
    assert decode_record(make(born_host=V6)).sys_flag == flags.BORN_HOST_V6
    assert (
        decode_record(make(store_host=V6, sys_flag=flags.COMMITTED)).sys_flag == flags.STORE_HOST_V6 | flags.COMMITTED
    )
    assert decode_record(make(born_host=V6, store_host=V6)).store_host == "[2001:db8::1]:10911"


def test_field_offsets_are_where_the_constants_say() -> None:
    record = make(prepared_transaction_offset=77, reconsume_times=5, flag=9)
    for at, size, value in (
        (stored_message.AT_SIZE, 4, len(record)),
        (stored_message.AT_MAGIC, 4, stored_message.MAGIC_V1),
        (stored_message.AT_QUEUE_ID, 4, 1),
        (stored_message.AT_FLAG, 4, 9),
        (stored_message.AT_QUEUE_OFFSET, 8, 2),
        (stored_message.AT_LOG_OFFSET, 8, 3),
        (stored_message.AT_SYS_FLAG, 4, 0),
        (stored_message.AT_BORN_TIMESTAMP, 8, 1700000000000),
        (stored_message.AT_STORE_TIMESTAMP, 8, 1700000000001),
        (stored_message.AT_RECONSUME_TIMES, 4, 5),
        (stored_message.AT_PREPARED_OFFSET, 8, 77),
        (stored_message.AT_BODY_LENGTH, 4, 5),
    ):
        assert int.from_bytes(record[at : at + size], "big") == value
    assert record[stored_message.AT_BORN_HOST : stored_message.AT_BORN_HOST + 8] == V4
    assert record[stored_message.AT_STORE_HOST : stored_message.AT_STORE_HOST + 8] == V4
    assert record[stored_message.AT_BODY :].startswith(b"hello")
    assert len(record) == stored_message.FIXED_SIZE + len(b"hello" + b"Orders" + b"TAGS\x01A\x02")
    longer = make(born_host=V6, store_host=V6)
    assert len(longer) == len(record) + 2 * stored_message.IPV6_EXTRA


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(MessageIllegal, match="32768 bytes"):
        make(properties_text=b"p" * 32768)
    with pytest.raises(MessageIllegal, match="topic"):
        make(topic=b"t" * 32768)
    with pytest.raises(MessageIllegal, match="number"):
        make(queue_id=2**31)
    with pytest.raises(MessageIllegal, match="number"):
        make(queue_offset=2**63, born_host=V6)
    with pytest.raises(LocalProtocolError, match="packed host"):
        make(born_host=b"1234")


@pytest.mark.parametrize(
    ("at", "replacement", "reason"),
    [
        (stored_message.AT_SIZE, (107).to_bytes(4, "big"), "add up"),
        (stored_message.AT_SIZE, (10**9).to_bytes(4, "big"), "torn"),
        (stored_message.AT_MAGIC, b"\0\0\0\0", "unknown magic 0x00000000"),
        (stored_message.AT_BODY_LENGTH, b"\xff\xff\xff\xff", "torn"),
        (stored_message.AT_BODY_LENGTH, b"\0\0\0\xff", "torn"),
        (stored_message.AT_BODY + 5, b"\x7f", "topic .* reaches over its end"),
        (stored_message.AT_BODY + 12, b"\x7f\xff", "add up"),
        (stored_message.AT_BODY + 12, b"\xff\xff", "add up"),
    ],
)
def test_a_damaged_record_says_where_it_is_damaged(at: int, replacement: bytes, reason: str) -> None:
    record = make()
    assert len(record) == 91 + 5 + 6 + 7
    with pytest.raises(RemoteProtocolError, match=reason):
        decode_record(record[:at] + replacement + record[at + len(replacement) :], check=False)


def test_a_record_cut_off_in_its_hosts_is_refused() -> None:
    record = make(born_host=V6, store_host=V6, body=b"", topic=b"", properties_text=b"")
    with pytest.raises(RemoteProtocolError, match="cut off in its hosts"):
        decode_record(record[:90])


def test_texts_that_are_not_utf8_do_not_make_a_record_bad() -> None:
    message = decode_record(make(topic=b"T\xff", properties_text=b"k\x01\xc3\x02"))
    assert message.topic == "T�"
    assert message.properties_text == "k\x01�\x02"


def test_the_end_mark_of_a_log_file() -> None:
    blank = stored_message.encode_blank(4096)
    assert stored_message.read_size_and_magic(blank) == (4096, stored_message.BLANK_MAGIC)
    with pytest.raises(RemoteProtocolError, match="magic 0xcbd43194"):
        decode_record(blank + bytes(200))
    with pytest.raises(RemoteProtocolError, match="cut off"):
        stored_message.read_size_and_magic(blank, 4)


def test_a_view_is_decompressed_and_knows_both_ids() -> None:
    record = make(
        body=compression.compress(b"x" * 5000),
        sys_flag=compression.SENT_FLAGS,
        properties_text=b"UNIQ_KEY\x01AB\x02KEYS\x01k1 k2\x02",
    )
    view = to_view(decode_record(record), "broker-a")
    assert view.body == b"x" * 5000
    assert view.compressed_when_stored
    assert view.message_id == "AB"
    assert view.offset_message_id == "0A00000100002A9F0000000000000003"
    assert view.keys == ["k1", "k2"]
    assert (view.queue.topic, view.queue.broker_name, view.queue.queue_id) == ("Orders", "broker-a", 1)


def test_a_view_without_unique_key_is_known_by_its_place() -> None:
    view = to_view(decode_record(make()), "broker-a")
    assert view.message_id == view.offset_message_id
    assert view.tags == "A"
    assert not view.compressed_when_stored


@pytest.mark.parametrize("topic", [b"Orders", b"t" * 200])
@pytest.mark.parametrize("hosts", [(8, 8), (20, 8), (8, 20), (20, 20)])
def test_the_properties_are_found_without_decoding(topic: bytes, hosts: tuple[int, int]) -> None:
    record = make(
        topic=topic, body=b"b" * 300, properties_text="n\x01näh\x02".encode(),
        born_host=bytes(hosts[0]), store_host=bytes(hosts[1]),
    )  # fmt: skip
    assert stored_message.properties_text(record) == decode_record(record).properties_text == "n\x01näh\x02"
    assert stored_message.properties_text(memoryview(record)) == "n\x01näh\x02"


@pytest.mark.parametrize("topic", [b"T", b"o" * 127])
@pytest.mark.parametrize("body", [b"", b"a body"])
def test_a_record_made_of_another_one_has_the_same_bytes(topic: bytes, body: bytes) -> None:
    host, text = bytes(range(8)), "TAGS\x01ä\x02".encode()
    tail = stored_message.tail_of(topic, text)
    wanted = encode_record(topic, body, text, 3, 4, 5, 6, host, 7, host[::-1], 8)
    assert wanted.endswith(body + tail)
    moved = encode_record(b"other", body, b"K\x01V\x02", 13, 14, 15, 6, host, 17, host[::-1], 8, 8, 0, 99)
    parts = stored_message.parts_of(wanted)
    assert parts is not None and wanted[parts[1] :] == text
    assert (
        stored_message.encode_moved(wanted, parts[0], b"other", b"K\x01V\x02", 13, 8, 99, 14, 15, 17, host[::-1])
        == moved
    )
    assert stored_message.born_host_of(wanted) == host


def test_what_is_not_of_the_usual_kind_is_not_taken_apart() -> None:
    v6 = bytes(range(20))
    record = encode_record(b"T", b"b", b"", 3, 4, 5, 6, v6, 7, bytes(8))
    assert stored_message.parts_of(record) is None
    assert stored_message.born_host_of(record) == v6
    assert stored_message.parts_of(encode_record(b"o" * 128, b"b", b"", 3, 4, 5, 6, bytes(8), 7, bytes(8))) is None
