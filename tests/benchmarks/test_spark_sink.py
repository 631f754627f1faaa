"""How ``benchmarks.spark_sink`` judges what it measured; the measuring itself takes minutes."""

from __future__ import annotations

from benchmarks.spark_sink import GOALS, KAFKA, beside_kafka

OURS = {name: {"rows_per_second": 60_000.0, "cpu_us": 20.0} for name in GOALS}


def test_without_kafka_the_goals_beside_it_are_unavailable_and_not_missed() -> None:
    judged = beside_kafka(OURS)
    assert {name: row["verdict"] for name, row in judged.items()} == dict.fromkeys(GOALS, "unavailable")


def test_both_guarantees_are_compared_with_kafka_by_rows_and_by_processor_time() -> None:
    slower = {**OURS, KAFKA: {"rows_per_second": 40_000.0, "cpu_us": 30.0}}
    assert beside_kafka(slower)["spark, exactly_once"] == {"of_kafka": 1.5, "by_cpu": 1.5, "verdict": "reached"}
    faster = {**OURS, KAFKA: {"rows_per_second": 80_000.0, "cpu_us": 10.0}}
    assert beside_kafka(faster)["spark, at_least_once"] == {"of_kafka": 0.75, "by_cpu": 0.5, "verdict": "NOT reached"}
