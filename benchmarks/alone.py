"""Running what is measured with nothing beside it."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from gantrymq.cli.serving.running import GC_THRESHOLDS

T = TypeVar("T")


def alone(work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, on uvloop where it is installed. Nothing is logged, and garbage is collected as it is in
    the process of a broker."""
    logging.disable(logging.CRITICAL)
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    found: T = uvloop.run(work)
    return found
