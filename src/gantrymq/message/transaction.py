"""Words of a transaction that broker and clients share."""

from __future__ import annotations

import enum


class Resolution(enum.IntEnum):
    """How a transaction ends; the numbers travel in END_TRANSACTION.

    Source: MessageSysFlag, EndTransactionRequestHeader.
    """

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12


class LocalTransactionState(enum.Enum):
    """What a TransactionListener answers. Source: LocalTransactionState."""

    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"

    @property
    def resolution(self) -> Resolution:
        return Resolution[self.name]
