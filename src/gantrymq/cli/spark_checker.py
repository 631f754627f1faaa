"""``gantry spark-checker``: finish what killed drivers of the Spark sink have left."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from gantrymq.cli.cluster_options import LOCAL, USAGE, NameServers, fail
from gantrymq.cli.serving.running import run
from gantrymq.errors import ConfigError

NAME: Final = "spark-checker"


def spark_checker(
    group: Annotated[str, typer.Option("--group", "-g", help="The sinks' option producerGroup.")] = "gantry-spark-sink",
    patience: Annotated[
        float, typer.Option("--patience", help="Seconds that a driver may take to commit a decided batch.")
    ] = 30.0,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")] = "warning",
    name_servers: NameServers = LOCAL,
) -> None:
    """Finish batches of the Spark sink (exactly_once) whose driver was killed.

    It joins the producer group, answers check-backs from the control topic, and commits the messages of decided
    batches. Any number of them may run beside drivers.
    """
    if importlib.util.find_spec("numpy") is None:
        fail("the sink needs the packages of Spark; run: pip install 'gantrymq[spark]'", NAME, USAGE)
    try:
        from gantrymq.spark.sink.checker import SinkChecker

        checker = SinkChecker(name_servers, group, patience_s=patience, interval_s=min(5.0, patience), said=_say)
    except ConfigError as error:
        fail(str(error), NAME, USAGE)
    run(NAME, lambda: _running(checker, group), log_level)


def _say(line: str) -> None:
    typer.echo(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC  {line}")


@contextlib.asynccontextmanager
async def _running(checker: object, group: str) -> AsyncIterator[str]:
    from gantrymq.spark.sink.checker import SinkChecker

    assert isinstance(checker, SinkChecker)
    await asyncio.to_thread(checker.start)
    try:
        yield f"producer group {group}, control topic {group}-decisions"
    finally:
        await asyncio.to_thread(checker.close)
