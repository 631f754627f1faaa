"""The fast decoder of SEND_MESSAGE_V2 gives the same result as ``decode_command``, for any bytes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gantrymq.errors import RemoteProtocolError
from gantrymq.protocol.binary_send import (
    ENDINGS_LIMIT,
    LAYOUTS_LIMIT,
    LEARN_EVERY,
    RETRY_EVERY,
    UNPACKERS_LIMIT,
    BinarySends,
    _unpacker,
)
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, SerializeType, decode_command, encode_request
from gantrymq.protocol.headers.send import SendMessage

SHORT_TEXT = st.text(max_size=12)
HEADERS = st.builds(
    SendMessage,
    producer_group=st.sampled_from(["group", "gruppe-ä"]),
    topic=st.one_of(st.sampled_from(["topic", "other"]), st.integers(0, 3 * LAYOUTS_LIMIT).map(str)),
    default_topic=st.just("TBW102"),
    default_topic_queue_nums=st.just(4),
    queue_id=st.integers(-1, 1200),
    sys_flag=st.integers(0, 2000),
    born_timestamp=st.one_of(st.integers(10**12, 10**13 - 1), st.integers(-5, 10**15)),
    flag=st.one_of(st.integers(-3, 70_000), st.integers(-(2**31), 2**31 - 1)),
    properties=st.one_of(st.none(), SHORT_TEXT, st.just("UNIQ_KEY\x0170\x02WAIT\x01true\x02")),
    reconsume_times=st.sampled_from([None, 0]),
    unit_mode=st.sampled_from([None, False]),
    batch=st.sampled_from([None, False]),
    bname=st.sampled_from([None, "broker-a"]),
)


def frame(header: SendMessage, opaque: int = 7, **more: object) -> bytes:
    """Header bytes of a binary request."""
    whole = encode_request(
        RequestCode.SEND_MESSAGE_V2,
        opaque,
        header,
        serialize=SerializeType.ROCKETMQ,
        **more,  # type: ignore[arg-type]
    )
    return whole[8:]


def outcome(decode: object, header: bytes) -> tuple[object, ...]:
    """What a way to decode makes of a header, in comparable form."""
    try:
        command: Command = decode(header)  # type: ignore[operator]
    except RemoteProtocolError as error:
        return ("refused", str(error))
    fields = (command.code, command.opaque, command.flag, command.version, command.language, command.remark)
    try:
        typed: object = command.header(SendMessage)
    except RemoteProtocolError as error:
        typed = str(error)
    return (*fields, command.ext_fields(), typed, command.body, command.serialize)


def same(fast: BinarySends, header: bytes) -> None:
    slow = outcome(lambda data: decode_command(SerializeType.ROCKETMQ, data, b"body"), header)
    assert outcome(lambda data: fast.decode(data, b"body"), header) == slow


@pytest.mark.slow
@given(st.lists(HEADERS, min_size=1, max_size=12))
def test_all_sends_of_a_connection_are_read_alike(headers: list[SendMessage]) -> None:
    fast = BinarySends()
    for number, header in enumerate(headers):
        same(fast, frame(header, number))
        same(fast, frame(header, number))


PLAIN = SendMessage(
    producer_group="group", topic="topic", default_topic="TBW102", default_topic_queue_nums=4, queue_id=3, sys_flag=0,
    born_timestamp=1_763_700_000_000, flag=0, properties="UNIQ_KEY\x01AB\x02", reconsume_times=0, unit_mode=False,
    batch=False, bname="broker-a",
)  # fmt: skip


BARE = msgspec.structs.replace(PLAIN, reconsume_times=None, unit_mode=None, batch=None, bname=None)
"""Nothing stands behind its properties."""


def read_quickly(fast: BinarySends, header: SendMessage) -> bool:
    command = fast.decode(frame(header), b"")
    assert command.header(SendMessage) == header
    return isinstance(command.ext, SendMessage)


def with_flag(number: int) -> SendMessage:
    return msgspec.structs.replace(PLAIN, flag=number)


def with_topic(number: int) -> SendMessage:
    return msgspec.structs.replace(PLAIN, topic=f"topic-{number}")


@given(st.sampled_from([PLAIN, BARE, with_flag(5000)]), st.integers(0, 400), st.integers(0, 255))
@example(like=PLAIN, at=16, value=1)
@example(like=PLAIN, at=20, value=0)
def test_any_changed_byte_is_read_alike(like: SendMessage, at: int, value: int) -> None:
    fast = BinarySends()
    header = bytearray(frame(like))
    fast.decode(bytes(header), b"")
    header[at % len(header)] = value
    same(fast, bytes(header))


@given(st.sampled_from([PLAIN, BARE]), st.integers(-(2**31), 2**31 - 1))
@example(like=BARE, size=13)
@example(like=BARE, size=14)
@example(like=BARE, size=2**31 - 1)
def test_properties_of_another_size_are_read_alike(like: SendMessage, size: int) -> None:
    fast = BinarySends()
    header = frame(like)
    fast.decode(header, b"")
    same(fast, header.replace(b"\0\x01i\0\0\0\x0c", b"\0\x01i" + size.to_bytes(4, "big", signed=True)))


@given(
    st.sampled_from(["e", "f", "g", "h"]),
    st.one_of(
        st.text(max_size=4), st.integers(-(2**33), 2**33).map(str), st.text("0123456789 _+-.\u0661", max_size=14)
    ),
)
@example(name="g", text="0763700000000")
@example(name="g", text="1_63700000000")
@example(name="e", text="007")
@example(name="f", text="+1")
@example(name="h", text="-0")
@example(name="h", text="1_000")
@example(name="h", text="2147483648")
@example(name="h", text="-2147483649")
@example(name="h", text="100000000000")
def test_numbers_of_any_text_are_read_alike(name: str, text: str) -> None:
    fast = BinarySends()
    plain = frame(PLAIN)
    fast.decode(plain, b"")
    fields = decode_command(SerializeType.ROCKETMQ, plain, b"").ext_fields() | {name: text}
    entries = b"".join(
        len(key).to_bytes(2, "big") + key.encode() + len(value.encode()).to_bytes(4, "big") + value.encode()
        for key, value in fields.items()
    )
    same(fast, plain[:17] + len(entries).to_bytes(4, "big") + entries)


@given(st.integers(0, 400), st.binary(max_size=9))
def test_cut_and_prolonged_headers_are_read_alike(at: int, more: bytes) -> None:
    fast = BinarySends()
    header = frame(PLAIN)
    fast.decode(header, b"")
    same(fast, header[: at % len(header)])
    same(fast, header + more)


def test_properties_that_are_no_utf8_are_refused_alike() -> None:
    fast = BinarySends()
    header = frame(PLAIN)
    fast.decode(header, b"")
    same(fast, header.replace(b"AB", b"\xff\xfe"))


def test_a_fitting_header_is_read_quickly() -> None:
    fast = BinarySends()
    assert not read_quickly(fast, PLAIN)
    assert read_quickly(fast, PLAIN)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
@example(queue=12, system=10, flag=999)
@example(queue=1024, system=769, flag=5000)
def test_numbers_of_any_size_are_read_quickly(queue: int, system: int, flag: int) -> None:
    fast = BinarySends()
    fast.decode(frame(PLAIN), b"")
    assert read_quickly(fast, msgspec.structs.replace(PLAIN, queue_id=queue, sys_flag=system, flag=flag))
    assert read_quickly(fast, PLAIN)


def test_unusual_numbers_push_out_no_topics() -> None:
    fast = BinarySends()
    topics = [with_topic(number) for number in range(LAYOUTS_LIMIT)]
    for header in topics:
        read_quickly(fast, header)
    for number in range(100):
        assert read_quickly(fast, msgspec.structs.replace(with_topic(0), flag=1000 * number))
    assert all(read_quickly(fast, header) for header in topics)


UNREADABLE = [
    frame(msgspec.structs.replace(PLAIN, born_timestamp=0)),
    frame(msgspec.structs.replace(PLAIN, properties="")),
    frame(msgspec.structs.replace(BARE, producer_group="another", properties=None)),
    frame(msgspec.structs.replace(PLAIN, topic="other")).replace(b"\0\x01n", b"\0\x01z"),
    *(frame(msgspec.structs.replace(with_topic(number), properties="")) for number in range(LAYOUTS_LIMIT)),
]
"""Never read quickly, whatever was learned. Two of them begin like ``PLAIN``."""


def test_a_layout_survives_many_headers_that_none_reads() -> None:
    fast = BinarySends()
    read_quickly(fast, PLAIN)
    for _ in range(3 * LEARN_EVERY):
        for header in UNREADABLE:
            same(fast, header)
    assert sum(read_quickly(fast, PLAIN) for _ in range(100)) > 100 - RETRY_EVERY


def test_a_layout_survives_many_headers_that_it_does_not_read() -> None:
    fast = BinarySends()
    read_quickly(fast, PLAIN)
    for _ in range(3 * LEARN_EVERY):
        for header in UNREADABLE[:2]:
            same(fast, header)
    assert sum(read_quickly(fast, PLAIN) for _ in range(100)) > 100 - RETRY_EVERY


def test_a_layout_is_used_between_headers_that_none_reads() -> None:
    fast = BinarySends()
    read_quickly(fast, PLAIN)
    for _ in range(3 * LEARN_EVERY):
        for header in UNREADABLE:
            assert isinstance(fast.decode(header, b"").ext, dict)
        assert read_quickly(fast, PLAIN)


def test_as_many_topics_as_are_remembered_are_read_quickly_from_their_second_time_on() -> None:
    fast = BinarySends()
    headers = [
        msgspec.structs.replace(with_topic(topic), queue_id=queue)
        for queue in (3, 12, 1024)
        for topic in range(LAYOUTS_LIMIT)
    ]
    assert [read_quickly(fast, header) for header in headers] == [False] * LAYOUTS_LIMIT + [True] * 2 * LAYOUTS_LIMIT


def test_one_topic_more_costs_the_others_little() -> None:
    fast = BinarySends()
    for _ in range(LEARN_EVERY):
        quickly = sum(read_quickly(fast, with_topic(number)) for number in range(LAYOUTS_LIMIT + 1))
    assert quickly >= LAYOUTS_LIMIT - 1


def test_new_topics_are_learned_after_many_others() -> None:
    fast = BinarySends()
    for number in range(1000):
        read_quickly(fast, with_topic(number))
    assert len(fast._layouts) == len(fast._prefixes) == LAYOUTS_LIMIT
    read = [read_quickly(fast, PLAIN) for _ in range(LEARN_EVERY + 1)]
    assert read == sorted(read)
    assert read[-1]


def test_only_so_many_endings_are_remembered() -> None:
    fast = BinarySends()
    for number in range(2 * ENDINGS_LIMIT * LEARN_EVERY):
        same(fast, frame(msgspec.structs.replace(PLAIN, bname=str(number))))
    assert [0 < len(layout.endings) <= ENDINGS_LIMIT for layout in fast._layouts] == [True]


def test_only_so_many_sizes_are_remembered() -> None:
    fast = BinarySends()
    read_quickly(fast, PLAIN)
    for digits in range(10):
        for more in range(10):
            for most in range(10):
                numbers = msgspec.structs.replace(PLAIN, queue_id=10**digits, sys_flag=10**more, flag=10**most)
                assert read_quickly(fast, numbers)
    assert [len(layout.shapes) for layout in fast._layouts] == [10]
    assert _unpacker.cache_info().maxsize == UNPACKERS_LIMIT
