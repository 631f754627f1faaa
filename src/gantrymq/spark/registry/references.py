"""A schema in Avro that names schemas of other subjects, as one text. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gantrymq.spark.registry.client import Schema, SchemaUnreadable


def avro_text(schema: Schema) -> bytes:
    """The schema with the definition of each type that it names in the place where it is named first.

    Raises SchemaUnreadable."""
    if not schema.references:
        return schema.text.encode()
    known = dict(_all(schema))
    return msgspec.json.encode(_whole(_tree(schema.text), "", known, set()))


def _all(schema: Schema) -> Iterator[tuple[str, Any]]:
    for name, one in schema.references:
        yield name, _tree(one.text)
        yield from _all(one)


def _tree(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise SchemaUnreadable(f"a schema of the registry is not JSON: {error}") from error


def _whole(one: Any, namespace: str, known: dict[str, Any], used: set[str]) -> Any:
    if isinstance(one, list):
        return [_whole(inner, namespace, known, used) for inner in one]
    if isinstance(one, str):
        full = one if "." in one or not namespace else f"{namespace}.{one}"
        name = full if full in known else one
        if name not in known or name in used:
            return one
        used.add(name)
        return _whole(known[name], name.rpartition(".")[0], known, used)
    if not isinstance(one, dict):
        return one
    if "name" in one:
        own = one.get("namespace", namespace) or ""
        full = one["name"] if "." in one["name"] else f"{own}.{one['name']}".lstrip(".")
        namespace = full.rpartition(".")[0]
        used.add(full)
    made = dict(one)
    for name in ("type", "items", "values"):
        if name in made:
            made[name] = _whole(made[name], namespace, known, used)
    if "fields" in made:
        made["fields"] = [{**field, "type": _whole(field["type"], namespace, known, used)} for field in made["fields"]]
    return made
