"""What brokers and clients both need to know of transactions: resolutions, listener answers, operators."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

OPERATOR_REMARK: Final = "operator: "
"""The remark of END_TRANSACTION and of RESUME_CHECK_HALF_MESSAGE begins with this when a person decides and not a
producer. The name of the person and the reason follow. A GantryMQ broker logs them; Apache's brokers ignore them."""

OPERATOR_CLIENT: Final = "#operator"
"""The client id of a tool ends with this if the tool joins a producer group only to carry out the decision of a person.
It has no checker, so a GantryMQ broker sends it no checks."""


class Resolution(enum.IntEnum):
    """How a transaction ends; END_TRANSACTION contains these numbers.

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


class HalfEnd(NamedTuple):
    """A half message that is to be ended."""

    queue_offset: int
    """In the half queue."""
    log_offset: int
    unique_key: str
