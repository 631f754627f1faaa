"""The meaning of "stored": when the answer to a send may be given. Source: docs/store.md#when-a-send-is-answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.shared_wait import SharedWait
from gantrymq.errors import MessageIllegal, StoreError, StoreUnavailable
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import NewRecord, Placement

MAX_WAITING_BYTES: Final = 256 * 1024 * 1024
"""Bytes of the log that may wait for a sync; beyond it sends are refused, so that a stalled disk cannot fill the memory
with answers that wait."""

T = TypeVar("T")
Done = Callable[[StoreError | None], None]


class Durability:
    """Puts records of clients into the store and tells when they are as safe as was asked for."""

    def __init__(self, config: LiveConfig, store: MessageStore) -> None:
        self._store = store
        self.limited: Final = config.store.flush_disk_type == "SYNC_FLUSH"
        """Whether ``check_waiting`` has to be asked before an append: only then answers wait for the disk."""
        self.append_plain: Final = store.append_plain
        """``append`` for one ordinary message, see ``Appender.append_plain``. Check and errors of the store are left to
        the caller: each call in between shows in the rate of sends."""

    def append(self, records: Sequence[NewRecord]) -> list[Placement]:
        """Raises Refused with what the client is to hear when the store does not take them."""
        if self.limited:
            self.check_waiting()
        try:
            return self._store.append(records)
        except (MessageIllegal, StoreError) as error:
            raise refusal(error) from error

    def check_waiting(self) -> None:
        """Raise Refused when too much waits for the disk."""
        waiting = self._store.appended - self._store.flushed
        if waiting > MAX_WAITING_BYTES:
            raise Refused(
                Refusal.BUSY,
                f"broker busy, start flow control for a while: {waiting} bytes wait for the disk",
            )

    def when_stored(self, end: int, wait: bool, done: Done) -> None:
        """Call ``done`` when everything before log offset ``end`` is stored: with SYNC_FLUSH on the disk, else, or when
        the sender does not ``wait`` (WAIT=false), in the file.
        """
        if wait:
            self._store.when_durable(end, done)
        else:
            self._store.when_written(end, done)

    def shared_wait(self, ended: Callable[[list[T], StoreError | None], None]) -> SharedWait[T]:
        """``when_stored`` for many senders that wait, told together."""
        return SharedWait(self._store, ended)


def refusal(error: StoreError | MessageIllegal) -> Refused:
    """What a client hears when the store did not take its message."""
    if isinstance(error, MessageIllegal):
        return Refused(Refusal.MESSAGE_ILLEGAL, str(error))
    return Refused(Refusal.UNAVAILABLE if isinstance(error, StoreUnavailable) else Refusal.FAILED, str(error))
