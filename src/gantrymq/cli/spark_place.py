"""The options that say where the Spark of a command runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gantrymq.errors import ConfigError

if TYPE_CHECKING:
    from gantrymq.spark.pipelines.job import Run

HERE = "local[*]"
Master = Annotated[
    str,
    typer.Option(
        help="Spark master, for example spark://127.0.0.1:7077; sc://127.0.0.1:15002 is a Spark Connect server"
    ),
]
ExecutorPython = Annotated[
    str | None, typer.Option("--python", help="the Python of a cluster's executors, by its path there and here")
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", help="Spark conf, spark.key=value; may be given several times")
]


def run_of(master: str, python: str | None, conf: list[str] | None) -> Run:
    """These options as a value. Raises ConfigError when one of ``conf`` is not ``spark.key=value``."""
    from gantrymq.spark.pipelines.job import Run

    found = {}
    for text in conf or ():
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise ConfigError(f"option --conf is {text!r}; write it as spark.key=value")
        found[key] = value
    return Run(master=master, python=python, spark=found)
