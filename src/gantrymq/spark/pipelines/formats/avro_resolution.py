"""Avro's rules of resolution: what becomes of values of the writer's schema in the columns of the job's own schema.

A plan is made once for two schemas, and followed for each body (``avro_values``) or for many of them at once
(``avro_columns``). No I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from gantrymq.spark.pipelines.formats.avro_types import Member, Type, Unfit, kind_of, not_null, single_of
from gantrymq.spark.pipelines.formats.column_types import ColumnType
from gantrymq.spark.pipelines.formats.port import BodyRefused

PROMOTIONS: Final = {
    "int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",),
    "string": ("bytes",), "bytes": ("string",),
}  # fmt: skip
"""To which types a value may change, as the specification of Avro says."""
_BITS: Final = {"int": 31, "long": 63}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without parts."""

    writer: Type
    reader: Type
    kind: ColumnType


@dataclass(frozen=True, slots=True)
class Skip:
    """A value of the writer that no column has."""

    writer: Type


@dataclass(frozen=True, slots=True)
class Fields:
    """A record."""

    kind: ColumnType
    fields: tuple[tuple[str, str, Plan], ...]
    """In the order of the body: the writer's name, the column (empty for Skip), and what to do."""
    defaults: Mapping[str, Any]
    """Columns that the writer does not have, and their values as Arrow takes them."""


@dataclass(frozen=True, slots=True)
class Many:
    """An array, or a map from strings."""

    kind: ColumnType
    of: Plan


@dataclass(frozen=True, slots=True)
class Choice:
    """A union of the writer: what to do for each of its types."""

    kind: ColumnType
    writers: tuple[Type, ...]
    branches: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class Null:
    """The type null, where the job's schema has it, too."""


@dataclass(frozen=True, slots=True)
class InMember:
    """A field of the struct that a union of several types is in a column."""

    kind: ColumnType
    at: int
    of: Plan


@dataclass(frozen=True, slots=True)
class Impossible:
    """No value of the writer's type can be one of the job's."""

    reason: str


Plan: TypeAlias = Leaf | Skip | Fields | Many | Choice | Null | InMember | Impossible


@dataclass(frozen=True, slots=True)
class Resolution:
    """How bodies of one schema become events of another one."""

    plan: Plan
    problems: tuple[str, ...]
    """What cannot be read, with the names of the fields."""


def resolve(writer: Type, reader: Type) -> Resolution:
    """Raises Unfit for a reader's schema whose values cannot be columns."""
    kind_of(reader)
    made = _Planner([])
    plan = made.plan(writer, reader, "")
    return Resolution(plan, tuple(dict.fromkeys(made.problems)))


@dataclass(frozen=True, slots=True)
class _Planner:
    problems: list[str] = field(default_factory=list)

    def plan(self, writer: Type, reader: Type, path: str) -> Plan:
        """``path``: the field, for reasons."""
        if writer.name == "union":
            branches = tuple(self.plan(one, reader, path) for one in writer.members)
            return Choice(kind_of(reader), writer.members, branches)
        if reader.name == "union":
            return self._into_union(writer, reader, path)
        if writer.name == "null":
            return self._impossible(path, "it can be null, and the schema of the job does not allow that")
        if not _may_match(writer, reader):
            return self._impossible(path, f"{writer.shown} cannot be read as {reader.shown}")
        if writer.name == "record":
            return self._record(writer, reader, path)
        if writer.name in ("array", "map"):
            return Many(kind_of(reader), self.plan(writer.members[0], reader.members[0], path))
        if (reason := _other_meaning(writer, reader)) is not None:
            return self._impossible(path, reason)
        if writer.name == "enum" and reader.default is None and (more := set(writer.symbols) - set(reader.symbols)):
            # Only bodies with such a symbol are refused.
            self.problems.append(_at(path, f"the enum {reader.full} does not have {', '.join(sorted(more))}"))
        return Leaf(writer, reader, kind_of(reader))

    def _into_union(self, writer: Type, reader: Type, path: str) -> Plan:
        if writer.name == "null":
            if any(one.name == "null" for one in reader.members):
                return Null()
            return self._impossible(path, "it can be null, and the schema of the job does not allow that")
        members = not_null(reader)
        chosen = next((one for one in members if _is_same(writer, one)), None)
        chosen = chosen or next((one for one in members if _may_match(writer, one)), None)
        if chosen is None:
            return self._impossible(path, f"{writer.shown} cannot be read as {reader.shown}")
        single = single_of(members)
        if single is not None:
            return self.plan(writer, single, path)
        return InMember(kind_of(reader), members.index(chosen), self.plan(writer, chosen, path))

    def _record(self, writer: Type, reader: Type, path: str) -> Plan:
        names = {one.name for one in writer.fields}
        wanted: dict[str, Member] = {}
        defaults: dict[str, Any] = {}
        for one in reader.fields:
            name = next((name for name in (one.name, *one.aliases) if name in names), None)
            place = f"{path}.{one.name}".lstrip(".")
            if name is not None:
                wanted[name] = one
            elif one.default is msgspec.UNSET:
                return self._impossible(place, "the writer does not have it, and the schema of the job has no default")
            else:
                defaults[one.name] = default_of(one.type, one.default, place)
        fields: list[tuple[str, str, Plan]] = []
        for mine in writer.fields:
            into = wanted.get(mine.name)
            if into is None:
                fields.append((mine.name, "", Skip(mine.type)))
            else:
                place = f"{path}.{into.name}".lstrip(".")
                fields.append((mine.name, into.name, self.plan(mine.type, into.type, place)))
        return Fields(kind_of(reader), tuple(fields), defaults)

    def _impossible(self, path: str, reason: str) -> Impossible:
        text = _at(path, reason)
        self.problems.append(text)
        return Impossible(text)


def _at(path: str, reason: str) -> str:
    return f"the field {path}: {reason}" if path else reason


def _is_same(writer: Type, reader: Type) -> bool:
    return writer.name == reader.name and (not writer.full or writer.full == reader.full)


def _may_match(writer: Type, reader: Type) -> bool:
    """Whether the types themselves match; their parts may not."""
    if writer.name != reader.name:
        return reader.name in PROMOTIONS.get(writer.name, ())
    if not writer.full:
        return True
    short = writer.full.rpartition(".")[2]
    same = short == reader.full.rpartition(".")[2]
    named = same or any(short == one.rpartition(".")[2] for one in reader.aliases)
    return named and (writer.name != "fixed" or writer.size == reader.size)


def _other_meaning(writer: Type, reader: Type) -> str | None:
    """Why the same bytes would mean another value; None if they do not. A type without a meaning can get one."""
    if writer.logical is None or reader.logical is None:
        return None
    if writer.logical.name == reader.logical.name:
        return None
    return f"{writer.shown} cannot be read as {reader.shown}: the same number would mean another value"


def default_of(one: Type, default: Any, path: str = "") -> Any:
    """The value of a default as Arrow takes it. Raises Unfit for one that its type does not have."""
    if one.name == "union":
        members = not_null(one)
        if default is None and len(members) < len(one.members):
            return None
        for at, member in enumerate(members):
            try:
                value = default_of(member, default, path)
            except Unfit:
                continue
            return value if single_of(members) is not None else {f"member{at}": value}
        raise Unfit(f"the default of {path} is not one of its types: {default!r}")
    forms: Mapping[str, Any] = {
        "boolean": bool, "string": str, "bytes": str, "fixed": str, "enum": str, "int": int, "long": int,
        "float": (int, float), "double": (int, float), "array": list, "map": dict, "record": dict,
    }  # fmt: skip
    whole = isinstance(default, forms.get(one.name, ())) and isinstance(default, bool) == (one.name == "boolean")
    if one.name in _BITS and whole:
        whole = -(1 << _BITS[one.name]) <= default < 1 << _BITS[one.name]
    if not whole or (one.name == "enum" and default not in one.symbols):
        raise Unfit(f"the default of {path} is not a value of its type {one.shown}: {default!r}")
    match one.name:
        case "array":
            return [default_of(one.members[0], value, path) for value in default]
        case "map":
            return [(name, default_of(one.members[0], value, path)) for name, value in default.items()]
        case "record":
            return {
                inner.name: default_of(inner.type, default.get(inner.name, inner.default), f"{path}.{inner.name}")
                for inner in one.fields
            }
    try:
        value = default.encode("latin1") if one.name in ("bytes", "fixed") else default
        return value if one.logical is None else one.logical.convert(value)
    except (BodyRefused, UnicodeEncodeError) as error:
        raise Unfit(f"the default of {path} has no meaning: {error}") from error
