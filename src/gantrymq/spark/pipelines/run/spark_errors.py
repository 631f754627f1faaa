"""Errors of Spark: whether the data is at fault, and what they say in short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_DATA: Final = re.compile(
    r"SQLSTATE: (22|P0)|java\.lang\.(ArithmeticException|NumberFormatException|IllegalArgumentException)"
    r"|java\.time\.|java\.util\.regex\.|ArrayIndexOutOfBounds"
)
"""A data exception of SQL, ``raise_error``, or what functions of Java raise for a value."""


@contextmanager
def unlogged() -> Iterator[None]:
    """PySpark does not write the errors of queries into the log: they are expected here, and there may be many."""
    from pyspark.logger import PySparkLogger

    # A logger of another class could not take what PySpark gives to this one.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


class Failed(Exception):
    """A query failed because of the data that it was given."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))


def is_about_data(error: Exception) -> bool:
    """Whether another try would fail as well, and other data would not: nothing is wrong with the cluster."""
    return _DATA.search(str(error)) is not None


def first_lines(error: Exception) -> str:
    """The beginning of what Spark says, in one line."""
    return " ".join(re.split(r"\n\nJVM stacktrace|\n\tat |\n== SQL", str(error))[0].split())[:500]
