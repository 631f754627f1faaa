"""The extension modules of a compiled wheel, which pyproject.toml cannot name (``GANTRY_COMPILE=1``)."""

import sys
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools" / "mypyc_build"))

import backend  # noqa: E402

if backend.wants_compiled():
    import extensions

    setup(**extensions.arguments(ROOT / "build" / "mypyc"))
else:
    setup()
