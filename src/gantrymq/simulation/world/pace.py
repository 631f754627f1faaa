"""Slows down the product's timers that only look for something late: they would cost more than all the rest."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from gantrymq.broker.delivery import long_polling
from gantrymq.broker.pop import waiting
from gantrymq.remoting import channel

SLOWER = ((channel, "_SWEEP_SECONDS", 1.0), (long_polling, "SWEEP_SECONDS", 1.0), (waiting, "SWEEP_SECONDS", 1.0))
"""Module, constant, seconds in a simulation. They decide how exact a time-out is, and nothing else."""
RUNS_PER_COLLECTION = 20
"""A run leaves circles of objects behind, and the collector would look for them a hundred times while it lasts."""

_runs = 0


@contextlib.contextmanager
def hurry() -> Iterator[None]:
    """Within it the product's idle timers are slow, and the garbage of runs waits."""
    global _runs
    before = [(module, name, getattr(module, name)) for module, name, _ in SLOWER]
    collects = gc.isenabled()
    gc.disable()
    for module, name, seconds in SLOWER:
        setattr(module, name, seconds)
    try:
        yield
    finally:
        for module, name, seconds in before:
            setattr(module, name, seconds)
        _runs += 1
        if collects:
            gc.enable()
        if _runs % RUNS_PER_COLLECTION == 0:
            gc.collect()
