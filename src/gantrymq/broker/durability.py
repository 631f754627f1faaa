"""What a broker adds to the store for its clients: a limit of what may wait, and what they hear of errors.

When something counts as stored is decided in ``store.log.safety``. Source: docs/store.md#when-a-send-is-answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.errors import MessageIllegal, StoreError, StoreUnavailable
from gantrymq.message.send_status import SendStatus
from gantrymq.protocol.stored_message import Birth
from gantrymq.store.log.appender import RunItem
from gantrymq.store.message_store import MessageStore
from gantrymq.store.room import Reason
from gantrymq.store.values import NewRecord, Placement

MAX_WAITING_BYTES: Final = 256 * 1024 * 1024
"""Bytes of the log that may wait to be safe; beyond it sends are refused, so that a stalled disk or replica cannot fill
the memory with answers that wait."""

Done = Callable[[StoreError | None], None]


class Durability:
    """Puts records of clients into the store; the waiting is that of ``LogSafety``."""

    def __init__(self, config: LiveConfig, store: MessageStore) -> None:
        self._store = store
        self._max_waiting_bytes = MAX_WAITING_BYTES
        self._safety = safety = store.safety
        self.limited: Final = config.store.flush_disk_type == "SYNC_FLUSH" or safety.has_conditions
        """Whether ``check_waiting`` has to be asked before an append: only then answers wait for more than a write."""
        self.when_stored: Final = safety.when_stored
        self.when_answerable: Final[Callable[[int, bool, Callable[[SendStatus | StoreError], None]], None]] = (
            safety.when_answerable
        )
        self.tell_sender: Final = safety.tell_sender
        self.appender: Final = store.appender
        """For one ordinary message: ``Appender.append_plain``. Check and errors of the store are left to the caller, as
        each call in between shows in the rate of sends."""

    def append(self, records: Sequence[NewRecord]) -> list[Placement]:
        """Raises Refused, with the reason for the client, when the store does not accept the records."""
        if self.limited:
            self.check_waiting()
        try:
            return self._store.append(records)
        except (MessageIllegal, StoreError) as error:
            raise refusal(error) from error

    def append_to_two(self, record: NewRecord, queue: str) -> Placement:
        """The same for one record that also takes a place in ``queue``."""
        if self.limited:
            self.check_waiting()
        try:
            return self.appender.append_to_two(record, queue)
        except (MessageIllegal, StoreError) as error:
            raise refusal(error) from error

    def append_run(
        self, topic: str, queue_id: int, items: Sequence[RunItem], birth: Birth
    ) -> tuple[list[int], int, int]:
        """Append many records of one queue; their log offsets, the one behind the last, and the queue offset of the
        first. Raises like ``append``; then none of them is stored."""
        if self.limited:
            self.check_waiting()
        try:
            run = self.appender.append_run(topic, queue_id, items, birth)
        except (MessageIllegal, StoreError) as error:
            raise refusal(error) from error
        if run is not None:
            first, _, places, records = run
            return places, places[-1] + len(records[-1]), first
        born_timestamp, born_host, _, sys_flag, times = birth
        placed = self.append(
            [
                NewRecord(topic, queue_id, body, text, born_timestamp, born_host, flag, sys_flag, times)
                for body, text, flag, _, _ in items
            ]
        )
        return [place.log_offset for place in placed], placed[-1].end, placed[0].queue_offset

    def check_waiting(self) -> None:
        """Raise Refused when too much waits for the disk."""
        waiting = self._store.appended - self._safety.position
        if waiting > self._max_waiting_bytes:
            self._store.room.refused["message", Reason.WAITING.value] += 1
            raise Refused(
                Refusal.BUSY,
                f"broker busy, start flow control for a while: {waiting} bytes wait for the disk",
            )


def refusal(error: StoreError | MessageIllegal) -> Refused:
    """The refusal for a client whose message the store did not accept."""
    if isinstance(error, MessageIllegal):
        return Refused(Refusal.MESSAGE_ILLEGAL, str(error))
    return Refused(Refusal.UNAVAILABLE if isinstance(error, StoreUnavailable) else Refusal.FAILED, str(error))
