"""The base class of JSON bodies, and how they are written and read.

Written: compact, keys in alphabetical order, fields that are None left out, integer keys quoted. Read: Java's dialect
(:mod:`gantrymq.protocol.lenient_json`); unknown fields are ignored, and null stands for an absent field.

Source: RemotingSerializable; docs/protocol.md#json-bodies.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Self

import msgspec

from gantrymq.errors import RemoteProtocolError
from gantrymq.protocol import lenient_json


class Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all bodies, and of the objects in them. A field that is None was not in the text, and is not written."""

    def encode(self) -> bytes:
        return msgspec.json.encode(_without_nulls(msgspec.to_builtins(self, str_keys=True)), order="sorted")

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
