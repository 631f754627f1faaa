"""END_TRANSACTION as bytes, made for speed: all parts that are the same for every half message are formatted once.

The result is, byte for byte, what encode_request makes of an EndTransaction header; a test compares.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import msgspec

from gantrymq.protocol.codes import RequestCode
from gantrymq.protocol.command import encode_request
from gantrymq.protocol.headers.transaction import EndTransaction

_PREFIX: Final = Struct(">II")
_json = msgspec.json.Encoder().encode
_PLACES: Final = {
    b'"tranStateTableOffset":"0"': b'"tranStateTableOffset":"%d"',
    b'"commitLogOffset":"0"': b'"commitLogOffset":"%d"',
    b'"commitOrRollback":"0"': b'"commitOrRollback":"%d"',
    b'"msgId":""': b'"msgId":%b',
    b'"transactionId":""': b'"transactionId":%b',
    b'"opaque":0': b'"opaque":%d',
}
"""What differs from end to end: as the frame that becomes the template has it, and as the template has it. Names and
values come from a cluster and a program, but a quote in them is written with a backslash: they hold none of these."""


class EndFrames:
    """Ends of one producer group, of halves of one topic on one broker."""

    __slots__ = ("_template",)

    def __init__(self, group: str, topic: str, broker_name: str) -> None:
        header = EndTransaction(
            producer_group=group,
            tran_state_table_offset=0,
            commit_log_offset=0,
            commit_or_rollback=0,
            from_transaction_check=False,
            msg_id="",
            transaction_id="",
            topic=topic,
            bname=broker_name,
        )
        whole = encode_request(RequestCode.END_TRANSACTION, 0, header)[_PREFIX.size :]
        template = whole.replace(b"%", b"%%")
        for value, place in _PLACES.items():
            template = template.replace(value, place)
        self._template = template

    def frame(
        self, opaque: int, queue_offset: int, log_offset: int, resolution: int, message_id: str, transaction_id: str
    ) -> bytes:
        """One whole frame of a two-way end without a remark."""
        key = _json(message_id)
        header = self._template % (
            queue_offset,
            log_offset,
            resolution,
            key,
            key if transaction_id == message_id else _json(transaction_id),
            opaque,
        )
        length = len(header)
        return _PREFIX.pack(4 + length, length) + header
