"""The base class of JSON bodies, and how they are written and read.

Written: compact, keys in alphabetical order, fields that are None left out, integer keys quoted. Read: Java's dialect
(:mod:`gantrymq.protocol.lenient_json`); unknown fields are ignored, and null stands for an absent field.

Source: RemotingSerializable; docs/protocol.md#json-bodies.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Self, TypeVar

import msgspec

from gantrymq.errors import RemoteProtocolError
from gantrymq.message.sizes import MAX_REQUEST_BODY_BYTES
from gantrymq.protocol import lenient_json


class Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all bodies, and of the objects in them. A field that is None was not in the text, and is not written."""

    def encode(self) -> bytes:
        return encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read a body. Raises RemoteProtocolError, which names the field, when the text is not such a body."""
        try:
            typed: Self = _decoder_of(cls).decode(data)
            return typed
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass  # it may be Java's dialect
        try:
            return msgspec.convert(_without_nulls(lenient_json.loads(data)), cls, strict=False, str_keys=True)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise RemoteProtocolError(f"malformed {cls.__name__} body: {error}") from error

    @classmethod
    def of_request(cls, data: bytes, most: int = MAX_REQUEST_BODY_BYTES) -> Self:
        """As ``decode``, for a server: Java's dialect is read token by token, so a large body must be standard JSON.
        None may be larger than ``most`` bytes."""
        if len(data) > most:
            raise RemoteProtocolError(
                f"the {cls.__name__} has {len(data)} bytes; at most {most} are read, send several requests"
            )
        if len(data) <= DIALECT_BYTES:
            return cls.decode(data)
        try:
            typed: Self = _decoder_of(cls).decode(data)
            return typed
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RemoteProtocolError(
                f"the {cls.__name__} of {len(data)} bytes is not plain JSON ({str(error)[:200]}), and at most "
                f"{DIALECT_BYTES} bytes are read in another form; send several requests"
            ) from error


B = TypeVar("B", bound=Body)


def decode_list(data: bytes, kind: type[B]) -> list[B]:
    """The bodies in a list; none, when there is no text. Raises RemoteProtocolError."""
    if not data:
        return []
    try:
        items = msgspec.json.decode(data, type=list[msgspec.Raw])
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"malformed list of {kind.__name__}: {error}") from error
    return [kind.decode(bytes(item)) for item in items]


def encode(value: msgspec.Struct) -> bytes:
    """A value as a body."""
    return msgspec.json.encode(_without_nulls(msgspec.to_builtins(value, str_keys=True)), order="sorted")


DIALECT_BYTES: Final = 131_072
"""Of the largest body that a server reads when it is not plain JSON of its type: every token costs some microseconds,
and meanwhile nobody else is served."""


@cache
def _decoder_of(kind: type[Body]) -> msgspec.json.Decoder[Any]:
    # Lax: the Go client writes numbers as strings here and there.
    return msgspec.json.Decoder(kind, strict=False)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
