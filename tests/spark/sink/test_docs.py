"""docs/spark-sink.md names everything there is, and its programs run as they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gantrymq.spark.sink.columns import COLUMNS
from tests.kill.server import Server
from tests.spark.sink.topics import bodies

PAGE = (Path(__file__).parents[3] / "docs" / "spark-sink.md").read_text()


def first_cells(section: str) -> list[str]:
    text = PAGE.split(f"## {section}")[1].split("\n## ")[0]
    return [line.split("|")[1].strip().strip("`") for line in text.splitlines() if line.startswith("| `")]


def test_every_column_and_no_other_is_documented() -> None:
    assert sorted(first_cells("Columns")) == sorted(COLUMNS)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path / "server", "ASYNC_FLUSH")
    running.start()
    yield running
    running.kill()


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_first_programs_work_as_written(spark: Any, server: Server, tmp_path: Path) -> None:
    """Only the addresses, the directory and the start of the session differ."""
    batch, stream = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    batch = batch.replace('spark = spark_session("my job")\n', "")
    stream = stream.replace("checkpoints/", f"{tmp_path}/")
    names: dict[str, Any] = {"spark": spark}
    for program in (batch, stream):
        exec(program.replace("127.0.0.1:9876", server.name_servers), names)
    query = names["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    for topic in ("orders-imported", "orders-checked"):
        assert sorted(bodies(server.name_servers, topic)) == [
            '{"order_id":"o-1","amount_cents":1999}', '{"order_id":"o-2","amount_cents":500}',
        ]  # fmt: skip
