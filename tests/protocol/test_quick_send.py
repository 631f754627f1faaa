"""Sends are read quickly with the same result as slowly, whatever their bytes are."""

from __future__ import annotations

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from gantrymq.errors import RemoteProtocolError
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import Command, SerializeType, decode_command, encode_request
from gantrymq.protocol.headers.send import SendMessage
from gantrymq.protocol.quick_send import QuickSends

SHORT_TEXT = st.text(max_size=12)
HEADERS = st.builds(
    SendMessage,
    producer_group=st.sampled_from(["group", "gruppe-ä"]),
    topic=st.sampled_from(["topic", "other"]),
    default_topic=st.just("TBW102"),
    default_topic_queue_nums=st.just(4),
    queue_id=st.integers(-1, 1200),
    sys_flag=st.integers(0, 64),
    born_timestamp=st.one_of(st.integers(10**12, 10**13 - 1), st.integers(-5, 10**15)),
    flag=st.integers(-3, 70_000),
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


def same(quick: QuickSends, header: bytes) -> None:
    slow = outcome(lambda data: decode_command(SerializeType.ROCKETMQ, data, b"body"), header)
    assert outcome(lambda data: quick.decode(data, b"body"), header) == slow


@given(st.lists(HEADERS, min_size=1, max_size=12))
def test_all_sends_of_a_connection_are_read_alike(headers: list[SendMessage]) -> None:
    quick = QuickSends()
    for number, header in enumerate(headers):
        same(quick, frame(header, number))
        same(quick, frame(header, number))


PLAIN = SendMessage(
    producer_group="group", topic="topic", default_topic="TBW102", default_topic_queue_nums=4, queue_id=3, sys_flag=0,
    born_timestamp=1_763_700_000_000, flag=0, properties="UNIQ_KEY\x01AB\x02", reconsume_times=0, unit_mode=False,
    batch=False, bname="broker-a",
)  # fmt: skip


@given(st.integers(0, 400), st.integers(0, 255))
@example(at=16, value=1)
@example(at=20, value=0)
def test_any_changed_byte_is_read_alike(at: int, value: int) -> None:
    quick = QuickSends()
    header = bytearray(frame(PLAIN))
    quick.decode(bytes(header), b"")
    header[at % len(header)] = value
    same(quick, bytes(header))


@given(st.integers(0, 400), st.binary(max_size=9))
def test_cut_and_prolonged_headers_are_read_alike(at: int, more: bytes) -> None:
    quick = QuickSends()
    header = frame(PLAIN)
    quick.decode(header, b"")
    same(quick, header[: at % len(header)])
    same(quick, header + more)


def test_properties_that_are_no_utf8_are_refused_alike() -> None:
    quick = QuickSends()
    header = frame(PLAIN)
    quick.decode(header, b"")
    same(quick, header.replace(b"AB", b"\xff\xfe"))


def test_a_fitting_header_is_read_quickly() -> None:
    quick = QuickSends()
    assert isinstance(quick.decode(frame(PLAIN), b"").ext, dict)
    assert isinstance(quick.decode(frame(PLAIN, 8), b"").ext, SendMessage)
    wide = msgspec.structs.replace(PLAIN, queue_id=12, sys_flag=10, flag=999)
    assert isinstance(quick.decode(frame(wide), b"").ext, dict)
    for header in (wide, PLAIN):
        assert quick.decode(frame(header), b"").ext == header
