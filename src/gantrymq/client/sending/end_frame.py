"""Encodes END_TRANSACTION requests fast: the parts that are the same for every half message are formatted only once.

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
"""The parts that differ between requests: as text in the frame of which the template is made, and as a placeholder in
the template. No group, topic or broker name can contain one of these texts, because JSON escapes quotes in them."""


class EndFrames:
    """The END_TRANSACTION frames of one producer group, for half messages of one topic on one broker."""

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
