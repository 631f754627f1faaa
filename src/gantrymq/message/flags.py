"""Bits of a message's system flag. Source: MessageSysFlag; docs/protocol.md#system-flag."""

from __future__ import annotations

from typing import Final

COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2
ORDINARY: Final = 0x0
"""A transaction type: none."""
PREPARED: Final = 0x4
COMMITTED: Final = 0x8
ROLLED_BACK: Final = 0xC
TRANSACTION_MASK: Final = 0xC
BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20
NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80

COMPRESSION_MASK: Final = 0x700
COMPRESSION_LZ4: Final = 0x100
COMPRESSION_ZSTD: Final = 0x200
COMPRESSION_ZLIB: Final = 0x300
"""Zero in these bits is read as ZLIB, too (clients older than 4.9.4 write zero)."""


def transaction_type(sys_flag: int) -> int:
    """0, PREPARED, COMMITTED or ROLLED_BACK."""
    return sys_flag & TRANSACTION_MASK


def with_transaction_type(sys_flag: int, transaction: int) -> int:
    """``sys_flag`` with its transaction bits replaced."""
    return (sys_flag & ~TRANSACTION_MASK) | transaction
