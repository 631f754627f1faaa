"""What a format does: it decodes many bodies at once, and says of each that it refuses why.

Nothing that is in a body may raise anything else: a batch of a stream would fail, and each restart would meet the same
message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from gantrymq.spark.pipelines.formats.kinds import Kind

if TYPE_CHECKING:
    import pyarrow as pa


class BodyRefused(ValueError):
    """A body is no event. The text is the reason, as it is written with the dead letter."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What became of some bodies."""

    values: list[Any]
    """A mapping of columns to values for each body; None for those that were refused."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why bodies were refused, by their index."""


class Format(Protocol):
    """What decodes the bodies of one job."""

    @property
    def kind(self) -> Kind:
        """The columns: a struct."""

    def decode(self, bodies: pa.Array) -> Decoded:
        """Decode bodies, none of which is null."""


Reader: TypeAlias = Callable[[bytes], Any]


def decode_each(bodies: Iterable[bytes], read: Reader) -> Decoded:
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
    return Decoded(values, reasons)
