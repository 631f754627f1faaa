"""What every test may count on."""

from __future__ import annotations

import importlib.util
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# A busy machine may stop us at any time for longer than the 200 ms that an example is given by default.
settings.register_profile("gantrymq", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("gantrymq"), max_examples=2_000)
settings.load_profile("gantrymq")

# A shell that starts us in the background makes us ignore Ctrl-C, and our children inherit that; the tests that
# interrupt would test the shell.
signal.signal(signal.SIGINT, signal.default_int_handler)

NEEDED = {"spark": "pyspark", "packaging": "build"}
"""Marks whose tests need a package that a small environment may lack; ``python3 run.py test`` has all of them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that share a Spark session in one process (``-n``), and leave out, by name, what this environment
    cannot run. On CI nothing is left out: there it fails instead."""
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))
    if os.environ.get("CI"):
        return
    for mark, package in NEEDED.items():
        found = importlib.util.find_spec(package)
        if found is not None and found.origin is not None:  # a directory "build" alone is no package
            continue
        for item in items:
            if item.get_closest_marker(mark) is not None:
                item.add_marker(pytest.mark.skip(reason=f"{package} is not installed; python3 run.py test has it"))
