"""Half, op and final messages joined: one row for each transaction, and the windows of ``lifecycle``.

Data frames in, data frames out; no cluster is asked and nothing is computed here. So the same functions serve the
report in a session of this process and a materialized view of a Declarative Pipelines project. There, ``withColumn``
or ``drop`` do not work on a table that the project defines, because Spark looks it up at once; ``select`` does.

Our broker writes into the op message how the half message ended and why. An Apache broker does not; there a half
message that was ended is committed if its final message is in its topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gantrymq.message.properties import CHECK_TIMES, REAL_TOPIC
from gantrymq.transactions.table.decisions import Cause, Decision

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DECISION_BITS, CAUSE_BITS = 15, 240
"""The flag of an op message."""
PLACE: Final = ("topic", "broker_name", "queue_id", "queue_offset")
HALF_COLUMNS: Final = (*PLACE, "message_id", "store_timestamp", "properties")
"""The columns of half messages that ``transactions_of`` needs,"""
OP_COLUMNS: Final = (*PLACE, "body", "flag", "store_timestamp")
"""and those of op messages."""
STATES: Final = ("committed", "rolled_back", "parked", "open")


def transactions_of(halves: DataFrame, ops: DataFrame) -> DataFrame:
    """One row for each transaction: topic, message_id, begun, ended (null while it is open), flag of the op, checks."""
    from pyspark.sql import functions as f

    known = (
        halves.select(
            f.col("properties")[REAL_TOPIC].alias("topic"),
            "broker_name",
            f.col("queue_offset").alias("half"),
            "message_id",
            "store_timestamp",
            f.coalesce(f.expr(f"try_cast(properties['{CHECK_TIMES}'] AS int)"), f.lit(0)).alias("checks"),
        )
        .where("topic is not null")
        .join(_ends(ops), ["broker_name", "half"], "left")
    )
    # An Apache broker that checks writes a copy of the half message, and an op for the old one.
    newest = f.max_by(f.struct("ended", "flag"), "half")
    return (
        known.groupBy("topic", "broker_name", "message_id")
        .agg(f.min("store_timestamp").alias("begun"), newest.alias("end"), f.max("checks").alias("checks"))
        .select("topic", "message_id", "begun", "checks", "end.*")
    )


def _ends(ops: DataFrame) -> DataFrame:
    """The first op message of each half message."""
    from pyspark.sql import functions as f

    # 4.x: one number. 5.x: several, each followed by a comma.
    numbers = f.explode(f.split(f.col("body").cast("string"), ",")).alias("text")
    return (
        ops.select("broker_name", "flag", "store_timestamp", numbers)
        .select("broker_name", "flag", "store_timestamp", f.expr("try_cast(text AS bigint)").alias("half"))
        .where("half is not null")
        .groupBy("broker_name", "half")
        .agg(f.min_by("flag", "store_timestamp").alias("flag"), f.min("store_timestamp").alias("ended"))
    )


def without_decision(transactions: DataFrame) -> DataFrame:
    """The transactions whose op message does not say how they ended, as on an Apache broker."""
    from pyspark.sql import functions as f

    decision = f.col("flag").bitwiseAND(DECISION_BITS)
    return transactions.where(f.col("ended").isNotNull() & (decision <= int(Decision.SETTLED)))


def with_states(transactions: DataFrame, finals: DataFrame | None) -> DataFrame:
    """The transactions with ``state``, one of STATES, and ``checked``.

    ``finals``: messages in the topics (``topic``, ``message_id``) of the transactions that ``without_decision``
    returns; None where there are none.
    """
    from pyspark.sql import functions as f

    if finals is None:
        joined = transactions.select("*", f.lit(False).alias("final"))
    else:
        there = finals.select("topic", "message_id", f.lit(True).alias("final")).distinct()
        joined = transactions.join(there, ["topic", "message_id"], "left")
    decision = f.col("flag").bitwiseAND(DECISION_BITS)
    cause = f.col("flag").bitwiseAND(CAUSE_BITS)
    state = (
        f.when(f.col("ended").isNull(), "open")
        .when(decision == int(Decision.COMMITTED), "committed")
        .when(decision == int(Decision.ROLLED_BACK), "rolled_back")
        .when(decision == int(Decision.PARKED), "parked")
        .when(f.col("final"), "committed")
        .otherwise("rolled_back")
    )
    by_check = (decision > int(Decision.SETTLED)) & (cause == int(Cause.CHECK_ANSWER))
    checked = f.coalesce(by_check, f.lit(False)) | (f.col("checks") > 0)
    return joined.select("*", state.alias("state"), checked.alias("checked"))


def by_window(states: DataFrame, window_ms: int) -> DataFrame:
    """The columns of ``lifecycle.Window`` for each topic and window, in their order."""
    from pyspark.sql import functions as f

    begin = f.floor(f.unix_millis("begun") / window_ms) * window_ms
    took_ms = (f.unix_micros("ended") - f.unix_micros("begun")) / 1000
    shares = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}
    return (
        states.groupBy("topic", begin.alias("begin_ms"))
        .agg(
            f.count("*").alias("transactions"),
            *(_count(f.col("state") == state).alias(state) for state in STATES),
            _count(f.col("checked")).alias("checked"),
            *(f.percentile(took_ms, f.lit(share)).alias(name) for name, share in shares.items()),
            f.max(took_ms).alias("max_ms"),
        )
        .orderBy("topic", "begin_ms")
    )


def _count(condition: Column) -> Column:
    from pyspark.sql import functions as f

    return f.coalesce(f.count_if(condition), f.lit(0))
