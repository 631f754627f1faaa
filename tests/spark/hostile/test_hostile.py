"""A short run of the generator. ``python -m tests.spark.hostile.run`` is the long one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.spark.hostile.job import FORMATS
from tests.spark.hostile.run import play
from tests.sql.databases import Place, database_server, postgresql

__all__ = ["database_server", "postgresql"]

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("form", list(FORMATS))
def test_each_message_is_in_every_table_or_in_the_dead_letters_once(
    spark: Any, form: str, tmp_path: Path, postgresql: Place
) -> None:
    for library in ("deltalake", "pyiceberg", "fastavro", "google.protobuf", "confluent_kafka", "grpc_tools"):
        pytest.importorskip(library)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    lines, seen = play(spark, form, seed, 400, tmp_path / form, postgresql, stream=False, crash=0.1, batch=400)
    assert not lines, "\n".join(lines[:20])
    assert seen["accepted"] > 100
