"""Makes Spark report an error of this connector by its sentence, without a traceback of Python."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gantrymq.errors import GantryError

_HIDE: Final = "SPARK_HIDE_TRACEBACK"
"""The variable that Spark's Python processes read when they report an error. After that they end, so that it changes no
later report."""


@contextmanager
def without_traceback() -> Iterator[None]:
    """A GantryError of this block already says what to do. Its traceback, of up to 60 lines, would hide that."""
    try:
        yield
    except GantryError:
        os.environ[_HIDE] = "1"
        raise
