"""Entries that a file system keeps in the directory where it is mounted. They do not belong to a store there."""

from __future__ import annotations

from typing import Final

OF_THE_FILE_SYSTEM: Final = frozenset(
    {"lost+found", "aquota.user", "aquota.group", "System Volume Information", "$RECYCLE.BIN"}
)
"""Of ext2 to ext4, of quotas, and of NTFS. Names that begin with a dot (``.snapshot``, ``.Trash-0``) are ignored by the
store in any case."""
