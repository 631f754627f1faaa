"""The condition ``events.valid``: evaluated so that no event can make it fail the batch, and why it does not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.spark.pipelines.trying import tried_truth

if TYPE_CHECKING:
    from pyspark.sql import Column


def holds(condition: str) -> Column:
    """A struct with the value of an SQL condition; null where it raises an error."""
    from pyspark.sql import functions as f

    return tried_truth(f.expr(condition), "holds")


def not_held(name: str, condition: str) -> Column:
    """Why an event is not valid; null if it is. ``name``: the column with what ``holds`` gives."""
    from pyspark.sql import functions as f

    said, value = condition.strip(), f.col(f"{name}.holds")
    return (
        f.when(f.col(name).isNull(), f.lit(f"the condition cannot be computed: {said}"))
        .when(value.isNull(), f.lit(f"the condition is null, so it does not hold: {said}"))
        .when(~value, f.lit(f"the condition does not hold: {said}"))
    )
