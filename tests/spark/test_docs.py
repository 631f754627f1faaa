"""The page about Spark names everything there is."""

from __future__ import annotations

from pathlib import Path

from gantrymq.spark.options import OPTIONS
from gantrymq.spark.rows import SPARK_TYPES

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


def test_every_option_and_no_other_is_documented() -> None:
    rows = [
        line.split("|")[1].strip().strip("`") for line in PAGE.split("## Options")[1].splitlines() if "| `" in line[:4]
    ]
    assert rows == list(OPTIONS)


def test_every_column_is_documented() -> None:
    table = PAGE.split("## Columns")[1].split("## Options")[0]
    assert [name for name in SPARK_TYPES if f"`{name}`" not in table] == []
