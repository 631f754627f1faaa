"""Short runs of the generator. ``python -m tests.spark.hostile.run`` is the long one."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gantrymq.spark.pipelines.formats.decoding import decoder_of, event_columns
from tests.spark.hostile.bodies import Fate
from tests.spark.hostile.job import FORMATS, body_of
from tests.spark.hostile.registered import PREFIX, registry_for
from tests.spark.hostile.run import play
from tests.sql.database_servers import lacking
from tests.sql.databases import Place, database_server, mariadb, postgresql

__all__ = ["database_server", "mariadb", "postgresql"]

pytestmark = pytest.mark.spark
REGISTERED = [form for form in FORMATS if form.startswith(PREFIX)]


def need_libraries() -> int:
    """Skip without them. Returns the seed."""
    for library in ("deltalake", "pyiceberg", "fastavro", "google.protobuf", "confluent_kafka", "grpc_tools"):
        pytest.importorskip(library)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    return seed


@pytest.mark.parametrize("form", [form for form in FORMATS if form not in REGISTERED])
def test_each_message_is_in_every_table_or_in_the_dead_letters_once(
    spark: Any, form: str, tmp_path: Path, postgresql: Place, request: pytest.FixtureRequest
) -> None:
    seed = need_libraries()
    mysql = None if lacking("mariadb") else request.getfixturevalue("mariadb")
    lines, seen = play(spark, form, seed, 400, tmp_path / form, postgresql, mysql, stream=False, crash=0.1, batch=400)
    assert not lines, "\n".join(lines[:20])
    assert seen["accepted"] > 100


@pytest.mark.parametrize("form", REGISTERED)
def test_bodies_with_headers_become_what_they_must(spark: Any, form: str, tmp_path: Path) -> None:
    """Without the targets, to which it makes no difference where a schema was."""
    made = list(FORMATS[form](random.Random(need_libraries()), 1000))
    with registry_for(form) as url:
        decoder = decoder_of(body_of(form, tmp_path, url))
        events, reasons = event_columns(decoder.format, pa.array([one.body for one in made], pa.binary()))
    for one, event, reason in zip(made, events.to_pylist(), reasons.to_pylist(), strict=True):
        assert (event is None) == (reason is not None), one
        assert one.fate is not Fate.DEAD or event is None, one
        if one.fate is Fate.EVENT and one.values is not None:
            assert event is not None, (one, reason)
            expected = [getattr(one.values, name) for name in ("id", "n", "price", "note", "ratio")]
            assert [event[name] for name in ("id", "n", "price", "note", "ratio")] == expected, one
