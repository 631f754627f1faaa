"""The project in examples/declarative_pipelines, run twice by `spark-pipelines`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.clusters
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    any(find_spec(name) is None for name in ("pyspark", "grpc", "yaml")),
    reason="pip install 'gantrymq[spark-connect,pipelines]'",
)
def test_the_second_run_adds_what_is_new(tmp_path: Path) -> None:
    from tests.examples.declarative import run_twice

    run_twice(tmp_path)
