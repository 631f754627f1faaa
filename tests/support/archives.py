"""Archives of recorded stores are unpacked safely where Python can (3.11.4; Debian 12 has 3.11.2)."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any, Final

SAFELY: Final[dict[str, Any]] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


def unpack_all(archive: tarfile.TarFile, directory: str | Path) -> None:
    """Everything that is in the archive."""
    archive.extractall(directory, **SAFELY)
