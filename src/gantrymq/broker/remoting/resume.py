"""RESUME_CHECK_HALF_MESSAGE (323): an operator gives a parked half message another chance.

Apache's broker takes any message for this. Here it must be a parked one, and the newest of its transaction: a copy that
was resumed before could be delivered twice. Source: AdminBrokerProcessor; docs/store.md#parking-and-resuming.
"""

from __future__ import annotations

import logging

from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.transactions.coordinator import TransactionCoordinator
from gantrymq.errors import StoreError
from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF, PARKED
from gantrymq.message.transaction import OPERATOR_REMARK
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.tools import ResumeCheck
from gantrymq.protocol.message_ids import parse_offset_message_id
from gantrymq.store.log.conditions import Unconfirmed
from gantrymq.store.message_store import MessageStore
from gantrymq.transactions.history.events import Kind
from gantrymq.transactions.table.open_halves import OpenHalf

log = logging.getLogger("gantrymq.transactions")


class ResumeProcessor:
    """Puts parked half messages back."""

    def __init__(self, store: MessageStore, coordinator: TransactionCoordinator) -> None:
        self._store = store
        self._coordinator = coordinator

    def resume(self, session: ClientSession, command: Command) -> None:
        """Answered when the half message is durable; it is checked like a new one from then on."""
        message = self._parked(command.header(ResumeCheck).msg_id)

        def done(half: OpenHalf, error: StoreError | None) -> None:
            code = ResponseCode.SUCCESS if error is None else ResponseCode.SYSTEM_ERROR
            session.send(encode_response(command, code, remark=None if error is None else str(error)))
            if error is None or isinstance(error, Unconfirmed):
                note = (command.remark or "").removeprefix(OPERATOR_REMARK)
                self._coordinator.history.note(Kind.RESUMED, half.place, peer=session.peer, text=note)
                log.warning(
                    "half message %s of group %s is open again%s", half.unique_key, half.group,
                    f" by {command.remark}" if command.remark else "",
                )  # fmt: skip

        self._coordinator.resume(message, done)

    def _parked(self, message_id: str) -> StoredMessage:
        offset = parse_offset_message_id(message_id)[1]
        message = self._store.read(offset)
        if message is None or message.topic != PARKED:
            raise Refused(Refusal.FAILED, f"no parked half message lies at {offset}; look for one in {PARKED}")
        key = properties.find(message.properties_text, properties.UNIQ_KEY) or ""
        for half in self._store.query(HALF, key, 64) if key else ():
            if half.log_offset > offset:
                raise Refused(
                    Refusal.FAILED,
                    f"this half message was resumed before (at {half.log_offset}); resume its newest parked copy",
                )
        return message
