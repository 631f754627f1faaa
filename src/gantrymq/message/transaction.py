"""Words of a transaction that broker and clients share."""

from __future__ import annotations

import enum
from typing import Final

from gantrymq.errors import MessageIllegal

MAX_ID_LENGTH: Final = 128
"""Characters of a transaction id that a user chooses. RocketMQ's own have 32; every broker keeps all open ones in mind,
and finds messages by them in its index."""

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


def check_transaction_id(transaction_id: str) -> str:
    """The id, when a transaction can have it. Raises MessageIllegal."""
    if (
        not isinstance(transaction_id, str)
        or not 0 < len(transaction_id) <= MAX_ID_LENGTH
        or not transaction_id.isascii()
        or not transaction_id.isprintable()
        or " " in transaction_id
    ):
        raise MessageIllegal(
            f"transaction_id must be a text of 1 to {MAX_ID_LENGTH} visible ASCII characters, not {transaction_id!r}"
        )
    return transaction_id


class LocalTransactionState(enum.Enum):
    """What a TransactionListener answers. Source: LocalTransactionState."""

    COMMIT = "COMMIT_MESSAGE"
    ROLLBACK = "ROLLBACK_MESSAGE"
    UNKNOWN = "UNKNOW"

    @property
    def resolution(self) -> Resolution:
        return Resolution[self.name]
