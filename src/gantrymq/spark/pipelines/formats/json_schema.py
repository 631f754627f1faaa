"""Whether bodies that a JSON Schema allows can have the types of a job's columns. No I/O.

Only what a schema says plainly is compared: types of properties, and whether they must be there. A body is read
strictly in any case, so what is not found here becomes a dead letter with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from gantrymq.spark.pipelines.formats.column_types import ColumnType, Scalar, ddl_type
from gantrymq.spark.registry.client import SchemaUnreadable

_TEXTS: Final = {
    Scalar.STRING, Scalar.BINARY, Scalar.TIMESTAMP, Scalar.LOCAL_TIMESTAMP, Scalar.DATE, Scalar.DECIMAL
}  # fmt: skip
_FRACTIONS: Final = {Scalar.FLOAT, Scalar.DOUBLE, Scalar.DECIMAL}
_WHOLE: Final = {Scalar.BYTE, Scalar.SHORT, Scalar.INT, Scalar.LONG}
_MAY_BE: Final[Mapping[str, set[Scalar]]] = {
    "string": _TEXTS, "integer": _WHOLE | _FRACTIONS, "number": _FRACTIONS, "boolean": {Scalar.BOOLEAN},
    "object": {Scalar.STRUCT, Scalar.MAP}, "array": {Scalar.ARRAY}, "null": set(Scalar),
}  # fmt: skip
"""The columns that a value of this type may have."""


def unreadable(text: str, kind: ColumnType, *, any_as_text: bool) -> list[str]:
    """What the schema allows and the columns do not. Raises SchemaUnreadable for a text that is not JSON."""
    try:
        schema = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise SchemaUnreadable(f"it is not JSON: {error}") from error
    return list(_of(schema, schema, kind, "", any_as_text))


def _of(schema: Any, root: Any, kind: ColumnType, path: str, any_as_text: bool) -> Iterator[str]:
    schema = _followed(schema, root)
    if not isinstance(schema, dict):
        return
    for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _of(one, root, kind, path, any_as_text)
    named = schema.get("type", [])
    for name in named if isinstance(named, list) else [named]:
        fits = kind.scalar in _MAY_BE.get(name, set(Scalar)) or (any_as_text and kind.scalar is Scalar.STRING)
        if not fits:
            yield f"the field {path or 'of the body'}: {name} cannot be read as {ddl_type(kind)}"
            return
    if kind.scalar is Scalar.ARRAY and kind.of is not None:
        yield from _of(schema.get("items"), root, kind.of, f"{path}[]", any_as_text)
    if kind.scalar is Scalar.STRUCT:
        properties = schema.get("properties", {})
        for field in kind.fields:
            place = f"{path}.{field.name}".lstrip(".")
            if field.name in properties:
                yield from _of(properties[field.name], root, field.kind, place, any_as_text)
            if field.required and properties and field.name not in schema.get("required", ()):
                yield f"the field {place}: it is NOT NULL, and the schema does not require it"


def _followed(schema: Any, root: Any) -> Any:
    """The schema that a reference within the same text names."""
    for _ in range(20):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return schema
        found = root
        for part in reference.removeprefix("#/").split("/"):
            found = found.get(part) if isinstance(found, dict) else None
        schema = found
    return None
