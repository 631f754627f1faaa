from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantrymq.errors import LocalProtocolError, RemoteProtocolError
from gantrymq.message.versions import VERSION
from gantrymq.protocol.codes import LanguageCode
from gantrymq.protocol.command import (
    ONE_WAY_FLAG,
    RESPONSE_FLAG,
    Command,
    SerializeType,
    decode_command,
    encode_command,
    encode_request,
    encode_response,
    ext_of,
)
from gantrymq.protocol.frame import FrameSplitter
from gantrymq.protocol.headers.pull import GetMaxOffset, OffsetAnswer
from gantrymq.protocol.headers.send import SendMessageAnswer

SHORT = st.integers(-(2**15), 2**15 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(max_size=20)
LANGUAGE = st.sampled_from([language.name for language in LanguageCode])
BOTH = pytest.mark.parametrize("serialize", list(SerializeType))


def decode(frame: bytes) -> Command:
    ((serialization, header, body),) = FrameSplitter().feed(frame)
    return decode_command(serialization, header, body)


def json_command(header: bytes) -> Command:
    return decode_command(SerializeType.JSON, header, b"")


@given(
    st.builds(
        Command,
        code=INT,
        opaque=INT,
        flag=INT,
        version=INT,
        language=st.none() | TEXT,
        remark=st.none() | TEXT,
        ext=st.none() | st.dictionaries(TEXT, TEXT, max_size=5),
        body=st.binary(max_size=20),
    )
)
def test_json_commands_survive(command: Command) -> None:
    frame = encode_command(command)
    again = decode(frame)
    assert again.ext_fields() == (command.ext or {})
    assert list(again.ext_fields()) == list(command.ext or {})
    for field in ("code", "opaque", "flag", "version", "language", "remark", "body"):
        assert getattr(again, field) == getattr(command, field)
    assert encode_command(again) == frame


@given(
    st.builds(
        Command,
        code=SHORT,
        opaque=INT,
        flag=INT,
        version=SHORT,
        language=LANGUAGE,
        remark=st.none() | st.text(min_size=1, max_size=20),
        ext=st.none() | st.dictionaries(TEXT, st.text(min_size=1, max_size=20), min_size=1, max_size=5),
        body=st.binary(max_size=20),
        serialize=st.just(SerializeType.ROCKETMQ),
    )
)
def test_compact_commands_survive(command: Command) -> None:
    frame = encode_command(command)
    assert decode(frame) == command
    assert encode_command(decode(frame)) == frame


def test_the_compact_form_turns_empty_texts_into_absent_ones() -> None:
    command = Command(code=1, remark="", ext={"a": "", "b": "x"}, serialize=SerializeType.ROCKETMQ)
    again = decode(encode_command(command))
    assert again.remark is None
    assert again.ext_fields() == {"b": "x"}


@given(st.sampled_from([0, 1]), st.binary(max_size=80))
def test_any_header_bytes_decode_or_raise_the_documented_error(serialization: int, header: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        command = decode_command(serialization, header, b"")
        command.ext_fields()
        command.header(GetMaxOffset)


WHOLE = {
    serialize: encode_request(30, 7, GetMaxOffset(topic="T", queue_id=3), remark="why", serialize=serialize)[8:]
    for serialize in SerializeType
}


@BOTH
def test_every_cut_of_a_header_is_refused(serialize: SerializeType) -> None:
    header = WHOLE[serialize]
    assert decode_command(serialize, header, b"").remark == "why"
    for length in range(len(header)):
        with pytest.raises(RemoteProtocolError):
            decode_command(serialize, header[:length], b"")


@given(st.sampled_from(list(SerializeType)), st.data())
def test_damaged_headers_decode_or_raise_the_documented_error(serialize: SerializeType, data: st.DataObject) -> None:
    header = bytearray(WHOLE[serialize])
    header[data.draw(st.integers(0, len(header) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(RemoteProtocolError):
        command = decode_command(serialize, bytes(header), b"")
        command.ext_fields()
        command.header(GetMaxOffset)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"code":"x"}',
        b'{"code":1,"opaque":2147483648}',
        b'{"code":-2147483649}',
        b'{"code":1,"flag":4294967296}',
        b'{"code":1,"remark":5}',
        b'{"code":1} x',
        b'{"code":1,"remark":"\xff"}',
    ],
)
def test_malformed_json_headers_are_refused(header: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        json_command(header)


def test_only_the_code_is_mandatory() -> None:
    command = json_command(b'{"code":1}')
    assert (command.opaque, command.flag, command.version, command.language, command.remark) == (0, 0, 0, None, None)
    assert command.ext is None
    assert command.ext_fields() == {}


def test_unknown_keys_and_languages_are_ignored() -> None:
    command = json_command(b'{"code":1,"later":{"x":[1]},"language":"COBOL"}')
    assert command.language == "COBOL"


def test_extension_fields_that_are_null_or_no_object() -> None:
    assert json_command(b'{"code":1,"extFields":null}').ext_fields() == {}
    for malformed in (b"[1]", b'"x"', b'{"a":{}}'):
        command = json_command(b'{"code":1,"extFields":' + malformed + b"}")
        with pytest.raises(RemoteProtocolError, match="extFields of request code 1"):
            command.ext_fields()
        with pytest.raises(RemoteProtocolError, match="GetMaxOffset"):
            command.header(GetMaxOffset)


def test_other_serializations_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="unknown header serialization 2"):
        decode_command(2, b"{}", b"")


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (bytes(20), "malformed"),
        (bytes(13) + b"\0\0\0\5abc", "runs past"),
        (bytes(13) + b"\xff\xff\xff\xff" + bytes(4), "runs past"),
        (bytes(17) + b"\0\0\0\1", "longer than the header"),
        (bytes(17) + b"\xff\xff\xff\xff", "longer than the header"),
        (bytes(17) + b"\0\0\0\7" + b"\0\1\xff\0\0\0\0", "malformed"),
    ],
)
def test_malformed_compact_headers_are_refused(header: bytes, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        decode_command(SerializeType.ROCKETMQ, header, b"")


def test_unknown_languages_survive_the_compact_form() -> None:
    header = bytearray(WHOLE[SerializeType.ROCKETMQ])
    header[2] = 200
    command = decode_command(SerializeType.ROCKETMQ, bytes(header), b"")
    assert command.language == "200"
    assert encode_command(command)[8:] == header


@pytest.mark.parametrize(("language", "number"), [(None, 7), ("COBOL", 7), ("GO", 9)])
def test_languages_of_the_compact_form(language: str | None, number: int) -> None:
    frame = encode_command(Command(code=1, language=language, serialize=SerializeType.ROCKETMQ))
    assert frame[8 + 2] == number


def test_codes_beyond_16_bits_need_json() -> None:
    with pytest.raises(LocalProtocolError, match="use JSON"):
        encode_request(200050, 1, serialize=SerializeType.ROCKETMQ)
    assert decode(encode_request(200050, 1)).code == 200050


@BOTH
def test_requests_and_their_answers(serialize: SerializeType) -> None:
    header = GetMaxOffset(topic="T", queue_id=3, committed=True)
    request = decode(encode_request(30, 9, header, b"body", one_way=True, extra={"ReqT": "0"}, serialize=serialize))
    assert (request.code, request.opaque, request.flag) == (30, 9, ONE_WAY_FLAG)
    assert (request.version, request.language, request.body) == (VERSION, "PYTHON", b"body")
    assert request.is_one_way
    assert not request.is_response
    assert request.header(GetMaxOffset) == header
    assert request.ext_fields() == {"topic": "T", "queueId": "3", "committed": "true", "ReqT": "0"}

    answer = decode(encode_response(request, 17, OffsetAnswer(offset=5), b"B", remark="no", extra={"k": "v"}))
    assert (answer.code, answer.opaque, answer.flag, answer.remark) == (17, 9, RESPONSE_FLAG, "no")
    assert answer.serialize is serialize
    assert answer.ext_fields() == {"offset": "5", "k": "v"}
    assert answer.header(OffsetAnswer).offset == 5


def test_without_header_there_are_no_extension_fields() -> None:
    assert decode(encode_request(34, 1)).ext is None
    assert decode(encode_request(34, 1, extra={"a": "b"})).ext_fields() == {"a": "b"}
    assert b"extFields" not in encode_request(34, 1)


@pytest.mark.parametrize(
    ("ext", "reason"),
    [
        ({"topic": "T"}, "queueId"),
        ({"queueId": "1"}, "topic"),
        ({"topic": "T", "queueId": "one"}, "queueId"),
        ({"topic": "T", "queueId": "2147483648"}, "queueId"),
        ({"topic": "T", "queueId": "1", "committed": "maybe"}, "committed"),
    ],
)
@BOTH
def test_missing_and_malformed_fields_are_named(serialize: SerializeType, ext: dict[str, str], reason: str) -> None:
    command = decode(encode_command(Command(code=30, ext=ext, serialize=serialize)))
    with pytest.raises(RemoteProtocolError, match=f"header GetMaxOffset of code 30.*{reason}"):
        command.header(GetMaxOffset)


def test_absent_fields_are_left_out_of_the_extension_fields() -> None:
    answer = SendMessageAnswer(msg_id="A", queue_id=0, queue_offset=0, trace_on="true")
    assert ext_of(answer) == {"msgId": "A", "queueId": "0", "queueOffset": "0", "TRACE_ON": "true"}
