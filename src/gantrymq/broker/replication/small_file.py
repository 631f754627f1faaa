"""Small JSON files of the store that say what a broker is in its group."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from gantrymq.errors import ConfigError
from gantrymq.runtime.disk import Disk, read_whole

T = TypeVar("T")


def read_small(disk: Disk, path: str, kind: type[T], otherwise: str) -> T | None:
    """The content of the file at ``path``; None: there is none.

    ``otherwise``: what happens without the file, for the error, which advises no copy: one of another broker would make
    two members one. Raises ConfigError when the file is
    damaged: a broker that took it for a missing one would be another member of its group without a word.
    """
    if not disk.exists(path):
        return None
    try:
        return msgspec.json.decode(read_whole(disk, path), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}; move it away: {otherwise}") from error
