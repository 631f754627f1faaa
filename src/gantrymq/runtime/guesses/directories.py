"""Directories that nobody named: home, state, cache and temporary files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Final

from gantrymq.errors import ConfigError

STATE_VARIABLE: Final = "XDG_STATE_HOME"
CACHE_VARIABLE: Final = "XDG_CACHE_HOME"


def home_directory(instead: str) -> Path:
    """The home directory of the user: ``HOME``, else what the system's list of users says.

    ``instead``: what the person can do about a user that has none, for example ``"give --store"``. Raises ConfigError.
    """
    try:
        return Path.home()
    except (RuntimeError, KeyError) as error:
        raise ConfigError(
            f"the user with the number {os.getuid()} has no home directory here: HOME is not set, and the list of "
            f"users does not have this user; {instead}"
        ) from error


def expanded(path: Path, setting: str) -> Path:
    """``path`` with the home directory in the place of a leading ``~``. Raises ConfigError, which names ``setting``."""
    if not str(path).startswith("~"):
        return path
    try:
        return path.expanduser()
    except (RuntimeError, KeyError) as error:
        raise ConfigError(
            f"{setting} is {path}, and that home directory is not known here; write the path without ~"
        ) from error


def state_directory(instead: str) -> Path:
    """Where this user's programs keep what they remember. Raises ConfigError, as ``home_directory`` does."""
    given = os.environ.get(STATE_VARIABLE)
    return Path(given) if given else home_directory(f"{instead}, or set {STATE_VARIABLE}") / ".local" / "state"


def cache_directories(name: str) -> list[Path]:
    """Where files may be kept that can be made again, the best one first. None of them needs to exist or to be
    writable."""
    found = []
    if given := os.environ.get(CACHE_VARIABLE):
        found.append(Path(given) / name)
    else:
        with contextlib.suppress(ConfigError):  # a user without a home has no cache there
            found.append(home_directory("") / ".cache" / name)
    with contextlib.suppress(OSError):  # no temporary directory can be written
        found.append(Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}")
    return found


def new_temporary_directory(prefix: str) -> Path:
    """A new directory of this process. Raises ConfigError when there is no place for it."""
    try:
        return Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise ConfigError(
            f"no temporary directory can be made ({error.strerror or error}); set TMPDIR to a directory that this user "
            "can write"
        ) from error
