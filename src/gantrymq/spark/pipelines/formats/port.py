"""What a format does: it decodes many bodies at once, and says of each that it refuses why.

Nothing that is in a body may raise anything else: a batch of a stream would fail, and each restart would meet the same
message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from gantrymq.spark.pipelines.formats.column_types import ColumnType, Scalar, arrow_type, ddl_type

if TYPE_CHECKING:
    import pyarrow as pa


class BodyRefused(ValueError):
    """A body is no event. The text is the reason, as it is written with the dead letter."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of some bodies."""

    events: pa.Array
    """A struct of the columns for each body; null for those that were refused."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Why bodies were refused, by their index."""


@dataclass(frozen=True, slots=True)
class Values:
    """What became of some bodies, before it is in Arrow."""

    values: list[Any]
    """A mapping of columns to values for each body; None for those that were refused."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why bodies were refused, by their index."""


class Format(Protocol):
    """What decodes the bodies of one job."""

    @property
    def kind(self) -> ColumnType:
        """The columns: a struct."""

    def decode(self, bodies: pa.Array) -> Decoded:
        """Decode bodies, none of which is null."""


Reader: TypeAlias = Callable[[bytes], Any]


def decode_each(bodies: Iterable[bytes], read: Reader) -> Values:
    """Decode one body after the other; ``read`` raises BodyRefused."""
    values: list[Any] = []
    reasons: dict[int, str] = {}
    add = values.append
    for body in bodies:
        try:
            add(read(body))
        except BodyRefused as error:
            reasons[len(values)] = str(error)
            add(None)
    return Values(values, reasons)


def fitted(found: Values, kind: ColumnType) -> Decoded:
    """The values in Arrow. Those that do not fit become null, and get a reason."""
    import pyarrow as pa

    values, reasons = found.values, found.reasons
    try:
        return Decoded(pa.array(values, arrow_type(kind)), reasons)
    # Arrow has an error for a number that is too large, another one for a text that is no Unicode, and so on.
    except (pa.ArrowException, ArithmeticError, ValueError, TypeError):
        for at, value in enumerate(values):
            if value is not None and (reason := _unfit(value, kind)) is not None:
                values[at] = None
                reasons[at] = reason
        return Decoded(pa.array(values, arrow_type(kind)), reasons)


def _unfit(value: Mapping[str, Any], kind: ColumnType) -> str | None:
    """Why Arrow refuses this event; None if it does not."""
    import pyarrow as pa

    for one in kind.fields:
        try:
            pa.array([value.get(one.name)], arrow_type(one.kind))
        except (pa.ArrowException, ArithmeticError, ValueError, TypeError) as error:
            inner = "" if one.kind.scalar not in (Scalar.STRUCT, Scalar.ARRAY, Scalar.MAP) else f" ({error})"
            return f"the column {one.name} must fit {ddl_type(one.kind)}, and is {shown(value.get(one.name))}{inner}"
    return None


MOST_CHARACTERS: Final = 500
_SHOWN: Final = 80


def plain(text: str) -> str:
    """A reason in one line of printable characters: it may quote a body, and a body may have anything."""
    line = " ".join(text.split())
    printable = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line[: 2 * MOST_CHARACTERS])
    return printable if len(printable) <= MOST_CHARACTERS else printable[: MOST_CHARACTERS - 3] + "..."


def shown(value: Any) -> str:
    """A value in a reason, cut where it is long."""
    text = repr(value) if isinstance(value, str | bytes | dict | list | tuple) else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
