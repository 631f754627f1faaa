"""Which messages of a writer's Protobuf schema can be read by the job's own. No I/O.

Protobuf reads any bytes by the numbers of fields: what does not match is left out, and a number that is too large for
its field loses bits. So the schemas are compared, and not the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_WIDER: Final = {
    "int32": {"int64"}, "uint32": {"uint64", "int64"}, "sint32": {"sint64"}, "string": {"bytes"}, "bytes": {"string"},
    "enum": {"int32", "int64"},
}  # fmt: skip
"""Other types that read each value of this one as what it is."""
_NAMES: Final = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool", 9: "string",
    10: "group", 11: "message", 12: "bytes", 13: "uint32", 14: "enum", 15: "sfixed32", 16: "sfixed64", 17: "sint32",
    18: "sint64",
}  # fmt: skip


def unreadable(writer: Any, reader: Any, path: str = "", seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """What of the writer's message type (a descriptor) the reader's would read otherwise or leave out."""
    if reader.full_name in seen:
        return
    for mine in reader.fields:
        theirs = writer.fields_by_number.get(mine.number)
        if theirs is None:
            continue
        place = f"{path}.{mine.name}".lstrip(".")
        if theirs.is_repeated and not mine.is_repeated:
            yield f"the field {place}: number {mine.number} is repeated, and the job reads one value"
        elif theirs.type != mine.type and _NAMES[mine.type] not in _WIDER.get(_NAMES[theirs.type], ()):
            yield (
                f"the field {place}: number {mine.number} is {_NAMES[theirs.type]} ({theirs.name}), which cannot be "
                f"read as {_NAMES[mine.type]}"
            )
        elif mine.message_type is not None:
            yield from unreadable(theirs.message_type, mine.message_type, place, seen | {reader.full_name})
