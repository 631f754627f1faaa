"""The build backend (PEP 517): setuptools, and mypy beside it only where a compiled build is wanted.

``GANTRY_COMPILE=1`` asks for a compiled wheel. Without it, and for every editable install, the wheel is pure Python,
also where a C compiler is at hand: compiling takes minutes, and should surprise nobody who installs from source.
"""

from __future__ import annotations

import os
from typing import Any, Final

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

SWITCH: Final = "GANTRY_COMPILE"
MYPY: Final = "mypy>=2.4,<3"
"""With its compiler mypyc. What an older one makes of these sources nobody has tried."""

Settings = dict[str, Any] | None


def wants_compiled() -> bool:
    return os.environ.get(SWITCH, "0") not in ("", "0")


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    # mypy reads the types of what the sources import. The other packages are read as Any.
    types = ["msgspec>=0.19", "h11>=0.14", "prometheus-client>=0.22", "sqlalchemy>=2.0.40", "psycopg>=3.2"]
    compiling = [MYPY, *types] if wants_compiled() else []
    return [*build_meta.get_requires_for_build_wheel(config_settings), *compiling]


def build_wheel(directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    return str(build_meta.build_wheel(directory, config_settings, metadata_directory))


def build_editable(directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Pure Python, whatever the environment asks for: compiled modules would hide every later edit."""
    os.environ.pop(SWITCH, None)
    return str(build_meta.build_editable(directory, config_settings, metadata_directory))
