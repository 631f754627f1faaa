"""CHECK_TRANSACTION_STATE (39): the remoting door asks a producer about a half message."""

from __future__ import annotations

from gantrymq.broker.check import Check
from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import encode_request
from gantrymq.protocol.headers.transaction import CheckTransactionState
from gantrymq.protocol.message_ids import offset_message_id


def check_frame(check: Check, opaque: int) -> bytes:
    """The one-way request. The client answers it with END_TRANSACTION, which has a number of its own."""
    key = check.unique_key or None
    header = CheckTransactionState(
        tran_state_table_offset=check.queue_offset,
        commit_log_offset=check.log_offset,
        msg_id=key,
        transaction_id=key,
        offset_msg_id=offset_message_id(check.store_host, check.log_offset),
        # Clients copy this into their answer, which is authorised by it: the real topic, not the half topic (hole 22).
        topic=check.topic,
        bname=check.broker_name or None,
    )
    return encode_request(RequestCode.CHECK_TRANSACTION_STATE, opaque, header, check.message, one_way=True)
