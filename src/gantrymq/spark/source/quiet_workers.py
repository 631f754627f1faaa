"""Keeps Spark's Python workers silent when Spark closes their connection.

``take`` and ``show`` close it as soon as they have enough rows, and the end of a session closes all. PySpark's daemon
then prints a traceback of BrokenPipeError in each worker that still wants to write, although nothing is wrong.
"""

from __future__ import annotations

import sys
import traceback
from typing import Any, Final

_DAEMON: Final = "pyspark.daemon"


def silence_closed_connections() -> None:
    """From now on this process prints no traceback for a connection that its peer has closed. May be called again."""
    original = traceback.print_exc
    if getattr(original, "is_silenced", False):
        return

    def print_exc(*arguments: Any, **options: Any) -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
            original(*arguments, **options)

    print_exc.is_silenced = True  # type: ignore[attr-defined]
    traceback.print_exc = print_exc


def in_worker() -> None:
    """The same, but only in a worker that PySpark's own daemon has forked: other programs keep their tracebacks."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if getattr(main, "name", None) == _DAEMON:
        silence_closed_connections()
