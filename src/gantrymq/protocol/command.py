"""The header of every request and answer (RemotingCommand), in its two forms.

JSON form: an object with code, language, version, opaque, flag, remark, extFields, serializeTypeCurrentRPC.
ROCKETMQ form: code i16, language u8, version i16, opaque i32, flag i32, remark (i32 length), extension map (i32 length;
per entry: i16 key length, key, i32 value length, value).

Source: RemotingCommand, RocketMQSerializable; docs/protocol.md#headers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from struct import error as StructError
from typing import Final, TypeVar

import msgspec
from msgspec import UNSET

from gantrymq.errors import LocalProtocolError, RemoteProtocolError
from gantrymq.message.versions import VERSION
from gantrymq.protocol.codes import LanguageCode
from gantrymq.protocol.envelope import LANGUAGE as LANGUAGE
from gantrymq.protocol.envelope import ONE_WAY_FLAG as ONE_WAY_FLAG
from gantrymq.protocol.envelope import RESPONSE_FLAG as RESPONSE_FLAG
from gantrymq.protocol.envelope import Command as Command
from gantrymq.protocol.envelope import Header as Header
from gantrymq.protocol.envelope import JsonEnvelope, JsonHeader
from gantrymq.protocol.envelope import SerializeType as SerializeType
from gantrymq.protocol.envelope import ext_of as ext_of
from gantrymq.protocol.frame import join_frame

H = TypeVar("H", bound=Header)
_JSON_HEADER: Final = msgspec.json.Decoder(JsonHeader)

_FIXED: Final = Struct(">hBhii")
_INT: Final = Struct(">i")
_SHORT: Final = Struct(">h")

# These are needed for each message, and before Python 3.12 a member of an enum takes ten times as long to look up as a
# global.
_JSON: Final = SerializeType.JSON
_ROCKETMQ: Final = SerializeType.ROCKETMQ


def decode_command(serialization: int, header: bytes, body: bytes) -> Command:
    """Decode the header and body of a frame. Raises RemoteProtocolError when the header is malformed."""
    if serialization == _JSON:
        return _decode_json(header, body)
    if serialization == _ROCKETMQ:
        return _decode_compact(header, body)
    raise RemoteProtocolError(f"unknown header serialization {serialization}; 0 (JSON) and 1 (ROCKETMQ) exist")


def _decode_json(header: bytes, body: bytes) -> Command:
    try:
        fields = _JSON_HEADER.decode(header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"malformed JSON header: {error}") from error
    ext, language = fields.extFields, fields.language
    return Command(
        code=fields.code,
        opaque=fields.opaque,
        flag=fields.flag,
        version=fields.version,
        language=_language_name(language) if isinstance(language, int) else language,
        remark=fields.remark,
        ext=ext if len(ext) else None,
        body=body,
    )


def reader_of(kind: type[H]) -> Callable[[Command], H]:
    """``Command.header`` for one kind of header and many commands."""
    decode = msgspec.json.Decoder(kind, strict=False).decode

    def read(command: Command) -> H:
        ext = command.ext
        if isinstance(ext, kind):
            return ext
        if isinstance(ext, msgspec.Raw):
            try:
                return decode(ext)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                pass  # it is said below what is wrong with it
        return command.header(kind)

    return read


def _decode_compact(header: bytes, body: bytes) -> Command:
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(header)
        remark, position = _text(header, _FIXED.size, _INT)
        (ext_size,) = _INT.unpack_from(header, position)
        position += 4
        end = position + ext_size
        if ext_size < 0 or end > len(header):
            raise RemoteProtocolError("the extension map is longer than the header")
        entries = header[position:]
        ext = _ascii_map(entries, ext_size) if entries.isascii() else _map(header, position, end)
    except (StructError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"malformed compact header: {error}") from error
    return Command(
        code=code,
        opaque=opaque,
        flag=flag,
        version=version,
        language=LANGUAGE_NAMES[language],
        remark=remark or None,
        ext=ext or None,
        body=body,
        serialize=SerializeType.ROCKETMQ,
    )


def _map(header: bytes, position: int, end: int) -> dict[str, str]:
    """The entries between two positions; those with an empty value are left out."""
    ext: dict[str, str] = {}
    while position < end:
        key, position = _text(header, position, _SHORT)
        value, position = _text(header, position, _INT)
        if value:
            ext[key] = value
    return ext


def _ascii_map(entries: bytes, end: int) -> dict[str, str]:
    """Like ``_map`` for ASCII bytes, which are decoded all at once, in half the time."""
    ext: dict[str, str] = {}
    text = entries.decode("ascii")
    short, number, size = _SHORT.unpack_from, _INT.unpack_from, len(entries)
    position = 0
    while position < end:
        key_end = position + 2 + short(entries, position)[0]
        start = key_end + 4
        if key_end < position + 2 or key_end > size:
            raise RemoteProtocolError("a text runs past the end of the header")
        value_end = start + number(entries, key_end)[0]
        if value_end < start or value_end > size:
            raise RemoteProtocolError("a text runs past the end of the header")
        if value_end > start:
            ext[text[position + 2 : key_end]] = text[start:value_end]
        position = value_end
    return ext


def _text(data: bytes, position: int, length_format: Struct) -> tuple[str, int]:
    (length,) = length_format.unpack_from(data, position)
    start = position + length_format.size
    end = start + length
    if length < 0 or end > len(data):
        raise RemoteProtocolError("a text runs past the end of the header")
    return data[start:end].decode(), end


def _language_name(number: int) -> str:
    try:
        return LanguageCode(number).name
    except ValueError:
        return str(number)


LANGUAGE_NAMES: Final = tuple([_language_name(number) for number in range(256)])
"""The names of languages by their number in a binary header."""


def _language_number(name: str | None) -> int:
    if name is None:
        return LanguageCode.OTHER
    return LanguageCode[name] if name in LanguageCode.__members__ else int(name) if name.isdigit() else 7


def encode_command(command: Command) -> bytes:
    """The whole frame. A command that was decoded from a Java peer is encoded to the same bytes."""
    if command.serialize is _ROCKETMQ:
        return join_frame(_ROCKETMQ, _compact_header(command), command.body)
    header = JsonEnvelope(
        command.code,
        UNSET if command.ext is None else command.ext if isinstance(command.ext, msgspec.Raw) else command.ext_fields(),
        command.flag,
        UNSET if command.language is None else command.language,
        command.opaque,
        UNSET if command.remark is None else command.remark,
        "JSON",
        command.version,
    )
    return join_frame(_JSON, _encode_json(header), command.body)


_encode_json: Final = msgspec.json.Encoder().encode


def _compact_header(command: Command) -> bytes:
    remark = (command.remark or "").encode()
    try:
        fixed = _FIXED.pack(
            command.code, _language_number(command.language), command.version, command.opaque, command.flag
        )
    except StructError as error:
        raise LocalProtocolError(
            f"code {command.code} does not fit the ROCKETMQ header; use JSON for codes above 32767"
        ) from error
    return b"".join((fixed, _INT.pack(len(remark)), remark, _compact_map(command.ext_fields())))


def _ext(header: Header | None, extra: Mapping[str, str] | None) -> dict[str, str] | None:
    if header is None:
        return dict(extra) if extra else None
    ext = ext_of(header)
    if extra:
        ext.update(extra)
    return ext


def encode_request(
    code: int,
    opaque: int,
    header: Header | None = None,
    body: bytes = b"",
    *,
    one_way: bool = False,
    remark: str | None = None,
    serialize: SerializeType = SerializeType.JSON,
    extra: Mapping[str, str] | None = None,
) -> bytes:
    """A request as a whole frame. ``extra``: extension fields beside those of ``header``."""
    return _encode(code, opaque, ONE_WAY_FLAG if one_way else 0, header, body, remark, serialize, extra)


def encode_response(
    request: Command,
    code: int,
    header: Header | None = None,
    body: bytes = b"",
    *,
    remark: str | None = None,
    extra: Mapping[str, str] | None = None,
) -> bytes:
    """The answer to ``request`` as a whole frame, with the opaque and the serialization of the request, which every
    client understands."""
    return _encode(code, request.opaque, RESPONSE_FLAG, header, body, remark, request.serialize, extra)


def success_of(request: Command) -> bytes:
    """``encode_response(request, 0)`` without the JSON encoder, for speed."""
    if request.serialize is _ROCKETMQ:
        return _COMPACT_SUCCESS.pack(25, 1 << 24 | 21, 0, PYTHON, VERSION, request.opaque, RESPONSE_FLAG, 0, 0)
    header = _JSON_SUCCESS % request.opaque
    return _PREFIX.pack(len(header) + 4, len(header)) + header


def response_code_of(frame: bytes) -> int:
    """The response code in a frame that was made here, without decoding the rest."""
    if frame[_FORM_AT] == 1:
        return frame[_HEADER_AT] << 8 | frame[_HEADER_AT + 1]  # never negative
    # JSON: {"code":0,... as it is the first field of JsonEnvelope.
    return int(frame[_CODE_AT : frame.index(b",", _CODE_AT)])


_FORM_AT: Final = 4
_HEADER_AT: Final = 8
_CODE_AT: Final = 16
"""Where the number of the header's form stands in a frame, where the header begins, and the code in a JSON header."""
_PREFIX: Final = Struct(">II")
_COMPACT_SUCCESS: Final = Struct(">IIhBhiiii")
_JSON_SUCCESS: Final = (
    b'{"code":0,"flag":%d,"language":"%b","opaque":%%d,"serializeTypeCurrentRPC":"JSON","version":%d}'
    % (RESPONSE_FLAG, LANGUAGE.encode(), VERSION)
)


PYTHON: Final = _language_number(LANGUAGE)


def _encode_compact(
    code: int, opaque: int, flag: int, ext: Mapping[str, str] | None, body: bytes, remark: str | None
) -> bytes:
    text = remark.encode() if remark else b""
    try:
        parts = [_FIXED.pack(code, PYTHON, VERSION, opaque, flag), _INT.pack(len(text)), text]
    except StructError as error:
        raise LocalProtocolError(
            f"code {code} does not fit the ROCKETMQ header; use JSON for codes above 32767"
        ) from error
    parts.append(_compact_map(ext) if ext else _NO_ENTRIES)
    return join_frame(_ROCKETMQ, b"".join(parts), body)


_NO_ENTRIES: Final = _INT.pack(0)


def _compact_map(ext: Mapping[str, str]) -> bytes:
    entries = bytearray()
    for key, value in ext.items():
        name, text = key.encode(), value.encode()
        entries += _SHORT.pack(len(name)) + name + _INT.pack(len(text)) + text
    return _INT.pack(len(entries)) + entries


def _encode(
    code: int,
    opaque: int,
    flag: int,
    header: Header | None,
    body: bytes,
    remark: str | None,
    serialize: SerializeType,
    extra: Mapping[str, str] | None,
) -> bytes:
    ext = _ext(header, extra)
    if serialize is _JSON:  # without the detour over a Command: this runs once per request and answer
        envelope = JsonEnvelope(
            code,
            UNSET if ext is None else ext,
            flag,
            LANGUAGE,
            opaque,
            UNSET if remark is None else remark,
            "JSON",
            VERSION,
        )
        return join_frame(_JSON, _encode_json(envelope), body)
    return _encode_compact(code, opaque, flag, ext, body, remark)
