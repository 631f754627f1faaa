"""The fast decoder of END_TRANSACTION gives the same result as ``decode_command``, for any bytes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gantrymq.errors import RemoteProtocolError
from gantrymq.protocol.binary_end import LAYOUTS_LIMIT, SHAPES_LIMIT, BinaryEnds
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import (
    Command,
    SerializeType,
    decode_command,
    encode_request,
    encode_response,
    success_of,
)
from gantrymq.protocol.headers.transaction import EndTransaction

NUMBERS = st.one_of(st.integers(0, 10**19), st.integers(-3, 300), st.sampled_from([2**63 - 1, 2**63, 2**31]))
KEYS = st.one_of(st.text(max_size=12), st.text("0123456789ABCDEF", min_size=32, max_size=32))
FIELDS: dict[str, st.SearchStrategy[object]] = {
    "producerGroup": st.sampled_from(["group", "gruppe-ä", "other"]),
    "tranStateTableOffset": NUMBERS,
    "commitLogOffset": NUMBERS,
    "commitOrRollback": st.sampled_from([0, 8, 12, 7, -1, 100, 2**31]),
    "fromTransactionCheck": st.sampled_from(["true", "false", "TRUE", "1", ""]),
    "msgId": KEYS,
    "transactionId": KEYS,
    "topic": st.sampled_from(["topic", ""]),
    "bname": st.just("broker-a"),
    "unknown": st.text(max_size=3),
}
ORDINARY = [name for name in FIELDS if name != "unknown"]
ORDERS = st.one_of(st.just(ORDINARY), st.permutations(ORDINARY), st.lists(st.sampled_from(list(FIELDS)), unique=True))
PLAIN = {
    "producerGroup": "group", "tranStateTableOffset": "17", "commitLogOffset": "4096", "commitOrRollback": "8",
    "fromTransactionCheck": "false", "msgId": "7F0000016D98E784C4C96794C4000001",
    "transactionId": "7F0000016D98E784C4C96794C4000001", "topic": "topic", "bname": "broker-a",
}  # fmt: skip


@st.composite
def entries(draw: st.DrawFn) -> dict[str, str]:
    order = draw(ORDERS)
    return {name: str(draw(FIELDS[name])) for name in order}


def frame(fields: dict[str, str], opaque: int = 7, **more: object) -> bytes:
    """Header bytes of a binary request."""
    return encode_request(
        RequestCode.END_TRANSACTION,
        opaque,
        extra=fields,
        serialize=SerializeType.ROCKETMQ,
        **more,  # type: ignore[arg-type]
    )[8:]


def outcome(decode: object, header: bytes) -> tuple[object, ...]:
    """What a way to decode makes of a header, in comparable form."""
    try:
        command: Command = decode(header)  # type: ignore[operator]
    except RemoteProtocolError as error:
        return ("refused", str(error))
    fields = (command.code, command.opaque, command.flag, command.version, command.language, command.remark)
    try:
        typed: object = command.header(EndTransaction)
    except RemoteProtocolError as error:
        typed = str(error)
    return (*fields, command.ext_fields(), typed, command.body, command.serialize)


def same(fast: BinaryEnds, header: bytes) -> None:
    slow = outcome(lambda data: decode_command(SerializeType.ROCKETMQ, data, b"body"), header)
    assert outcome(lambda data: fast.decode(data, b"body"), header) == slow


@pytest.mark.slow
@given(st.lists(entries(), min_size=1, max_size=12))
def test_all_ends_of_a_connection_are_read_alike(requests: list[dict[str, str]]) -> None:
    fast = BinaryEnds()
    for number, fields in enumerate(requests):
        same(fast, frame(fields, number))
        same(fast, frame(fields, number, one_way=True))


@given(
    st.sampled_from(["tranStateTableOffset", "commitLogOffset", "commitOrRollback"]),
    st.one_of(st.text(max_size=4), NUMBERS.map(str)),
)
@example(name="commitLogOffset", text="007")
@example(name="commitLogOffset", text="1_0")
@example(name="commitLogOffset", text=" 1")
@example(name="commitLogOffset", text="\u0661")
@example(name="commitOrRollback", text="12.0")
def test_numbers_of_any_text(name: str, text: str) -> None:
    fast = BinaryEnds()
    same(fast, frame(PLAIN))
    same(fast, frame(PLAIN | {name: text}))
    same(fast, frame(PLAIN | {name: text}))


@given(
    st.sampled_from(["tranStateTableOffset", "commitLogOffset", "commitOrRollback"]),
    st.text("0123456789 _+-\u0661", min_size=2, max_size=4),
)
@example(name="commitLogOffset", text="0700")
@example(name="commitLogOffset", text="1_00")
@example(name="tranStateTableOffset", text="+1")
def test_numbers_of_as_many_digits(name: str, text: str) -> None:
    """What has the size of a header that came twice, and differs from it where it may."""
    fast = BinaryEnds()
    for _ in range(2):
        same(fast, frame(PLAIN | {name: "1" + "0" * (len(text.encode()) - 1)}))
    same(fast, frame(PLAIN | {name: text}))


@given(st.sampled_from(["msgId", "transactionId"]), st.text(min_size=4, max_size=32))
def test_ids_of_the_same_size(name: str, text: str) -> None:
    fast = BinaryEnds()
    for _ in range(3):
        same(fast, frame(PLAIN | {name: "A" * len(text.encode())}))
    same(fast, frame(PLAIN | {name: text}))


@given(st.integers(0, 400), st.integers(0, 255))
def test_one_byte_differs(at: int, value: int) -> None:
    fast = BinaryEnds()
    header = bytearray(frame(PLAIN))
    for _ in range(3):
        same(fast, bytes(header))
    header[at % len(header)] = value
    same(fast, bytes(header))


@given(st.integers(0, 400))
def test_cut_off_or_too_long(size: int) -> None:
    fast = BinaryEnds()
    header = frame(PLAIN)
    same(fast, header)
    same(fast, (header + b"\0" * 100)[:size])


def test_the_second_one_of_a_kind_is_read_quickly() -> None:
    fast = BinaryEnds()
    assert isinstance(fast.decode(frame(PLAIN), b"").ext, dict)
    assert isinstance(fast.decode(frame(PLAIN | {"commitLogOffset": "5"}), b"").ext, EndTransaction)


def test_the_third_one_of_a_kind_has_a_shape() -> None:
    fast = BinaryEnds()
    for number in range(10, 14):
        same(fast, frame(PLAIN | {"commitLogOffset": str(number)}, number))
    assert [len(shapes) for shapes in fast._shapes.values()] == [1]
    fast._layouts.clear()
    assert isinstance(fast.decode(frame(PLAIN | {"commitLogOffset": "99"}), b"").ext, EndTransaction)


def test_only_so_many_shapes_are_remembered() -> None:
    fast = BinaryEnds()
    for digits in range(1, 19):
        for more in range(1, 19):
            number = PLAIN | {"commitLogOffset": "9" * digits, "tranStateTableOffset": "8" * more}
            same(fast, frame(number))
            same(fast, frame(number))
    assert 0 < sum(map(len, fast._shapes.values())) <= SHAPES_LIMIT


def test_a_remark_is_kept() -> None:
    fast = BinaryEnds()
    for _ in range(3):
        same(fast, frame(PLAIN))
    same(fast, frame(PLAIN, remark="operator"))


def test_only_a_few_kinds_are_remembered() -> None:
    fast = BinaryEnds()
    for number in range(3 * LAYOUTS_LIMIT):
        for _ in range(2):
            same(fast, frame(PLAIN | {"topic": f"topic{number}"}))
    assert len(fast._layouts) == LAYOUTS_LIMIT


@given(st.integers(-(2**31), 2**31 - 1), st.sampled_from(SerializeType))
def test_a_formatted_success_is_the_encoded_one(opaque: int, serialize: SerializeType) -> None:
    request = Command(code=RequestCode.END_TRANSACTION, opaque=opaque, serialize=serialize)
    assert success_of(request) == encode_response(request, ResponseCode.SUCCESS)
