"""The project in examples/declarative_pipelines, run twice by `spark-pipelines`."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    "GANTRY_DECLARATIVE" not in os.environ or any(find_spec(name) is None for name in ("pyspark", "grpc", "yaml")),
    reason="GANTRY_DECLARATIVE=1, with pip install 'gantrymq[spark-connect,pipelines]': it takes minutes",
)
def test_the_second_run_adds_what_is_new(tmp_path: Path) -> None:
    from tests.examples.declarative import run_twice

    run_twice(tmp_path)
