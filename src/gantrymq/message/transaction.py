"""Words of a transaction that broker and clients share."""

from __future__ import annotations

import enum
from typing import Final

OPERATOR_REMARK: Final = "operator: "
"""How the remark of END_TRANSACTION and of RESUME_CHECK_HALF_MESSAGE begins when a person decides, not a producer; who
and why follow. Our broker logs it; Apache's do not look at it."""

OPERATOR_CLIENT: Final = "#operator"
"""How the client id of a tool ends that joins a producer group only to decide in the name of a person. It has no
checker, so our broker asks it nothing."""


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
