"""A driver program for the tests of clusters: it reads a topic in one session after the other, and prints the counts.

python -m tests.spark.clusters.driver NAME_SERVERS WAY MASTER PYTHON [WAY MASTER PYTHON ...]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

from tests.spark.clusters.executor_pythons import NO_OTHER

SMALL = {"spark.ui.enabled": "false", "spark.executor.memory": "512m", "spark.executor.cores": "1", **NO_OTHER}


def counts(spark: Any, name_servers: str) -> dict[str, int]:
    """The rows of a batch, and of a stream to its end."""
    options = {"nameServers": name_servers, "subscribe": "orders"}
    rows = spark.read.format("rocketmq").options(**options).load().count()
    stream = spark.readStream.format("rocketmq").options(**options, startingOffsets="earliest").load()
    with tempfile.TemporaryDirectory() as scratch:
        writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{scratch}/checkpoint")
        query = writer.option("path", f"{scratch}/rows").trigger(availableNow=True).start()
        query.awaitTermination()
        return {"batch": rows, "stream": spark.read.parquet(f"{scratch}/rows").count()}


def reasons(spark: Any) -> list[str | None]:
    """Why events are not valid, for conditions that fail with an error; see ``pipelines.conditions``."""
    from gantrymq.spark.pipelines.run.expressions import TRY_CONF, holds, not_held

    for key, value in TRY_CONF.items():
        spark.conf.set(key, value)
    condition = "cast(a AS int) > 0 AND 8 / cast(a AS int) > 1"
    rows = spark.createDataFrame([("1",), ("x",), (None,), ("9",), ("0",)], "a string")
    said = rows.withColumn("valid", holds(condition)).withColumn("reason", not_held("valid", condition)).collect()
    return [row["reason"] and row["reason"].partition(":")[0] for row in said]


def zip_with_registration(master: str, python: str) -> Any:
    from pyspark.sql import SparkSession

    from gantrymq.spark import register
    from gantrymq.spark.session.java import find_java

    os.environ |= {"JAVA_HOME": find_java().home, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master(master).config(map=SMALL)
    spark = builder.getOrCreate()
    register(spark, ship=True)
    return spark


def installed(master: str, python: str) -> Any:
    from gantrymq.spark import spark_session

    return spark_session("installed", master=master, warm_workers=True, conf=SMALL, python=python)


def packed(master: str, python: str) -> Any:
    from gantrymq.spark import spark_session

    archive = {"spark.archives": f"{os.environ['PACKED']}#environment"}
    return spark_session("packed", master=master, warm_workers=True, conf={**SMALL, **archive}, python=python)


def connect(master: str, python: str) -> Any:
    from pyspark.sql import SparkSession

    from gantrymq.spark import register
    from gantrymq.spark.session.java import find_java

    os.environ |= {"JAVA_HOME": find_java().home, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    spark = SparkSession.builder.remote(master).getOrCreate()
    register(spark)
    return spark


WAYS = {"zip": zip_with_registration, "installed": installed, "packed": packed, "connect": connect}


def main(name_servers: str, way: str, master: str, python: str) -> None:
    spark = WAYS[way](master, python)
    print(json.dumps(counts(spark, name_servers) | {"reasons": reasons(spark)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
