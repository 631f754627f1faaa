"""The operation by which an operator gives a parked half message another chance.

Apache's broker takes any message for this. Here it must be a parked one, and the newest of its transaction: a copy that
was resumed before could be delivered twice. Source: AdminBrokerProcessor; docs/store.md#parking-and-resuming.
"""

from __future__ import annotations

import logging

from gantrymq.broker.client import Client, Operator
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.transactions.coordinator import TransactionCoordinator
from gantrymq.broker.transactions.end import Done
from gantrymq.errors import StoreError
from gantrymq.message import properties
from gantrymq.message.message import StoredMessage
from gantrymq.message.system_topics import HALF, PARKED
from gantrymq.store.log.conditions import Unconfirmed
from gantrymq.store.message_store import MessageStore
from gantrymq.transactions.history.events import EventKind
from gantrymq.transactions.table.open_halves import OpenHalf

log = logging.getLogger("gantrymq.transactions")


class ResumeOperation:
    """Puts parked half messages back."""

    def __init__(self, store: MessageStore, coordinator: TransactionCoordinator) -> None:
        self._store = store
        self._coordinator = coordinator

    def resume(self, client: Client, log_offset: int, operator: Operator | None, done: Done) -> None:
        """Open the transaction whose parked message lies at ``log_offset`` again. ``done`` is called when the half is
        durable; it is checked like a new one from then on.

        Raises Refused, CorruptRecord or StoreUnavailable instead of a call of ``done``.
        """

        parked = self._parked(log_offset)

        def stored(half: OpenHalf, error: StoreError | None) -> None:
            done(None if error is None else Refused(Refusal.FAILED, str(error)))
            if error is not None and not isinstance(error, Unconfirmed):
                return
            self._coordinator.parked.resumed(parked.queue_offset)
            note = "" if operator is None else operator.note
            self._coordinator.history.note(EventKind.RESUMED, half.place, peer=client.address, text=note)
            log.warning(
                "half message %s of group %s is open again%s", half.unique_key, half.group,
                f" by operator: {note}" if note else "",
            )  # fmt: skip

        self._coordinator.resume(parked, stored)

    def _parked(self, log_offset: int) -> StoredMessage:
        message = self._store.read(log_offset)
        if message is None or message.topic != PARKED:
            raise Refused(Refusal.FAILED, f"no parked half message lies at {log_offset}; look for one in {PARKED}")
        key = properties.find(message.properties_text, properties.UNIQ_KEY) or ""
        for half in self._store.query(HALF, key, 64) if key else ():
            if half.log_offset > log_offset:
                raise Refused(
                    Refusal.FAILED,
                    f"this half message was resumed before (at {half.log_offset}); resume its newest parked copy",
                )
        return message
