"""What the tests of pipelines share."""

from __future__ import annotations

import contextlib
import importlib

import pytest


@pytest.fixture(scope="session", autouse=True)
def libraries_are_loaded() -> None:
    """Those of Delta and Iceberg. From a cold disk it takes seconds to load them, and nothing else of this process runs
    meanwhile: servers and clients of these tests, which are in it, waited too long for each other."""
    for name in ("deltalake", "pyiceberg.catalog", "pyiceberg.table"):
        with contextlib.suppress(ImportError):  # the tests that need it say so
            importlib.import_module(name)
