"""Finds the messages because of which a projection fails, or a target refuses rows.

A projection is any SQL query, so its rows do not say which message they are from. They do when the query can also
select the place of the message, and gives the same rows then. If it cannot, the batch is halved again and again, until
the messages are found that fail alone. Of a query that fails, Spark can say for most queries which rows have errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from gantrymq.spark.pipelines.run.event_stream import place, view_of
from gantrymq.spark.pipelines.run.expressions import FAILS, Failed, failing_rows, first_lines, unlogged
from gantrymq.spark.pipelines.run.projections import VIEW, collected, evaluated, rows_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_PLACE, _OF = "_gantry_place", "_gantry_of"
_SELECT: Final = re.compile(r"\s*select\s+(?!distinct\b|all\b)", re.IGNORECASE)

Refusals: TypeAlias = Mapping[int, str]
"""Which rows a target refuses, by their index, and why."""
Check: TypeAlias = Callable[["pa.Table"], Refusals]


@dataclass(frozen=True, slots=True)
class Projection:
    """What one target of a job gets, and what it refuses of it."""

    target: str
    sql: str
    refusals: Check


def with_place(batch: DataFrame) -> DataFrame:
    """The view ``events`` with the place of each message."""
    return view_of(batch.withColumn(f"event {_PLACE}", place()))


@dataclass(frozen=True, slots=True)
class FailingProjection:
    """Events of a batch, and the projection that fails with them."""

    spark: SparkSession
    events: pa.Table
    """With the place of their messages."""
    projection: Projection

    def frame(self) -> DataFrame:
        """The rows of the projection."""
        # Without the place, which `SELECT *` would hand to the target.
        return rows_of(self._frame(self.events.drop_columns([_PLACE])), self.projection.sql)

    def behind_rows(self, rows: pa.Table, refusals: Refusals) -> dict[str, str]:
        """The messages behind rows that the target refuses. ``rows``: all rows of the projection."""
        places = self._places(rows)
        if places is None:
            return self._search(self.events)
        return {places[at]: refusal(self.projection.target, reason) for at, reason in refusals.items()}

    def behind_errors(self) -> dict[str, str]:
        """The messages for whose rows the query fails."""
        with unlogged():
            # Spark says at once which they are, if it can. Each is asked for its own error.
            singly = [self._of(place) for place in self._failing_places()]
            found = {place: reason for place, one in singly if (reason := self._failure(one)) is not None}
            return found or self._search(self.events)

    def _of(self, place: str) -> tuple[str, pa.Table]:
        import pyarrow.compute as pc

        return place, self.events.filter(pc.equal(self.events[_PLACE], place))

    def _places(self, rows: pa.Table) -> list[str] | None:
        """The message of each row; None if the query cannot say it."""
        from pyspark.errors import PySparkException

        sql = self._sql_with_place()
        try:
            found = None if sql is None else evaluated(self._frame(self.events), sql)
        except (Failed, PySparkException):  # it groups, or has no such column where it selects
            return None
        if found is None:
            return None
        same = found.drop_columns([name for name in (_OF, _PLACE) if name in found.column_names])
        if same.column_names != rows.column_names or not _equal(same, rows):
            return None
        return list(found[_OF].to_pylist())

    def _failing_places(self) -> list[str]:
        """The messages for whose rows Spark has errors. None of them if the query cannot say it."""

        sql = self._sql_with_place()
        if sql is None:
            return []
        self._frame(self.events).createOrReplaceTempView(VIEW)
        try:
            rows = failing_rows(self.spark.sql(sql))
            return [] if rows is None else list(rows.where(FAILS).toArrow()[_OF].unique().to_pylist())
        # As above; or the error is not in a column, but in what the query selects from. Where something else is wrong,
        # the search meets it again.
        except Exception:  # noqa: BLE001
            return []

    def _sql_with_place(self) -> str | None:
        """The query with the place of the message as its first column; None if it does not begin as such a query."""
        match = _SELECT.match(self.projection.sql)
        return f"SELECT {_PLACE} AS {_OF}, {self.projection.sql[match.end() :]}" if match else None

    def _search(self, events: pa.Table) -> dict[str, str]:
        """The messages that fail alone, or in a pair of halves neither of which does."""
        failure = self._failure(events)
        if failure is None:
            return {}
        if len(events) > 1:
            middle = len(events) // 2
            found = self._search(events.slice(0, middle)) | self._search(events.slice(middle))
            if found:
                return found
        # One event; or several that only fail together, for example in a sum.
        together = f" (with {len(events) - 1} other messages)" if len(events) > 1 else ""
        return dict.fromkeys(events[_PLACE].to_pylist(), failure + together)

    def _failure(self, events: pa.Table) -> str | None:
        """Why these events fail; None if they do not."""
        try:
            rows = collected(replace(self, events=events).frame())
        except Failed as failed:
            return refusal(self.projection.target, f"its query fails: {first_lines(failed.error)}")
        reason = next(iter(self.projection.refusals(rows).values()), None)
        return None if reason is None else refusal(self.projection.target, reason)

    def _frame(self, events: pa.Table) -> DataFrame:
        return self.spark.createDataFrame(events)


def refusal(target: str, text: str) -> str:
    """A reason that names the target."""
    return f"targets.{target}: {text}"


def _equal(one: pa.Table, other: pa.Table) -> bool:
    try:
        # NaN is not equal to NaN, but is written in the same way.
        return one.equals(other) or repr(one.to_pylist()) == repr(other.to_pylist())
    except (ValueError, OverflowError):  # a time that Python does not have
        return False
