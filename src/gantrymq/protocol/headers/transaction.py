"""Ending and checking transactions. Source: EndTransactionRequestHeader; docs/protocol.md#transactions."""

from __future__ import annotations

from gantrymq.message.numbers import Int, Long
from gantrymq.protocol.command import Header


class EndTransaction(Header, frozen=True, kw_only=True):
    """END_TRANSACTION."""

    producer_group: str
    tran_state_table_offset: Long
    """Queue offset of the half message in the half queue."""
    commit_log_offset: Long
    """Log offset of the half message."""
    commit_or_rollback: Int
    """A :class:`~gantrymq.message.transaction.Resolution`; Apache's broker ignores any other number."""
    from_transaction_check: bool | None = None
    msg_id: str
    """UNIQ_KEY of the half message."""
    transaction_id: str | None = None
    topic: str | None = None
    bname: str | None = None


class EndHalves(Header, frozen=True, kw_only=True):
    """END_HALVES; the body names the half messages, see ``protocol.halves``."""

    producer_group: str
    commit_or_rollback: Int
    """As in EndTransaction, for all of them."""
    from_transaction_check: bool | None = None


class CheckTransactionState(Header, frozen=True, kw_only=True):
    """CHECK_TRANSACTION_STATE, from broker to producer, one-way; the body is the half message under its real topic."""

    tran_state_table_offset: Long
    commit_log_offset: Long
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None
    """The half topic (5.3 and later)."""
    bname: str | None = None
