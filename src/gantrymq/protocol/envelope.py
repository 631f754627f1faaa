"""A request or an answer as values: the envelope, and the base of all typed headers.

``protocol.command`` makes bytes of them and reads them. It is compiled, which classes of msgspec cannot be.
"""

from __future__ import annotations

import enum
from functools import cache
from typing import Final, TypeVar

import msgspec

from gantrymq.errors import RemoteProtocolError
from gantrymq.message.numbers import Int

RESPONSE_FLAG: Final = 1
ONE_WAY_FLAG: Final = 2
LANGUAGE: Final = "PYTHON"


class SerializeType(enum.IntEnum):
    """How a header is written. Source: SerializeType."""

    JSON = 0
    ROCKETMQ = 1


class Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all typed headers, whose fields are sent as extFields. Absent fields are None."""


H = TypeVar("H", bound=Header)


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One request or answer.

    ``code``: what is asked, or how it is answered. ``opaque``: pairs an answer with its request. ``ext``: the
    extension fields; those of a JSON header are decoded when they are first needed. ``arrived``: when it was read from
    its connection, in seconds of the reader's clock; it is not on the wire.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    version: int = 0
    language: str | None = LANGUAGE
    remark: str | None = None
    ext: msgspec.Raw | dict[str, str] | Header | None = None
    body: bytes = b""
    serialize: SerializeType = SerializeType.JSON
    arrived: float = 0.0

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_one_way(self) -> bool:
        return bool(self.flag & ONE_WAY_FLAG)

    def ext_fields(self) -> dict[str, str]:
        """The extension fields in the order of the wire; empty when there are none."""
        if self.ext is None:
            return {}
        if isinstance(self.ext, dict):
            return self.ext
        if isinstance(self.ext, Header):
            return ext_of(self.ext)
        try:
            return _EXT_DECODER.decode(self.ext) or {}
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RemoteProtocolError(f"extFields of request code {self.code} are malformed: {error}") from error

    def header(self, kind: type[H]) -> H:
        """The extension fields as a typed header.

        Raises RemoteProtocolError naming the field when one is missing or malformed.
        """
        ext = self.ext
        if ext.__class__ is kind:
            return ext
        try:
            if isinstance(ext, msgspec.Raw):
                typed: H = _decoder_of(kind).decode(ext)
                return typed
            return msgspec.convert(self.ext_fields(), kind, strict=False)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RemoteProtocolError(f"header {kind.__name__} of code {self.code}: {error}") from error


_EXT_DECODER: Final = msgspec.json.Decoder(dict[str, str] | None, strict=False)


@cache
def _decoder_of(kind: type[H]) -> msgspec.json.Decoder[H]:
    # The values are strings on the wire ("queueId":"3"); lax decoding turns them into the declared types.
    return msgspec.json.Decoder(kind, strict=False)


class JsonHeader(msgspec.Struct, frozen=True):
    """A header as JSON, as it is read."""

    code: Int
    opaque: Int = 0
    flag: Int = 0
    version: Int = 0
    language: str | int | None = None
    """The name or the number of a language. Java's parser accepts the number, so some client may send it."""
    remark: str | None = None
    extFields: msgspec.Raw = msgspec.Raw()


class JsonEnvelope(msgspec.Struct, frozen=True):
    """A header as JSON, to be written."""

    # fastjson writes the keys of the envelope in alphabetical order; those of extFields in any order.
    code: int
    extFields: msgspec.Raw | dict[str, str] | msgspec.UnsetType
    flag: int
    language: str | msgspec.UnsetType
    opaque: int
    remark: str | msgspec.UnsetType
    serializeTypeCurrentRPC: str
    version: int


def ext_of(header: Header) -> dict[str, str]:
    """The extension fields of a typed header; fields that are None are left out. Source: makeCustomHeaderToNet."""
    fields = zip(header.__struct_encode_fields__, msgspec.structs.astuple(header), strict=True)
    return {
        name: value if value.__class__ is str else _WORDS[value] if value.__class__ is bool else str(value)
        for name, value in fields
        if value is not None
    }


_WORDS: Final = {True: "true", False: "false"}
