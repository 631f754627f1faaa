"""Pulls: a consumer reads messages from one queue, at once or when a message arrives.

Source: PullMessageProcessor; docs/protocol.md#pulling.
"""

from __future__ import annotations

from typing import Final

from gantrymq.broker.client import Client
from gantrymq.broker.delivery.long_polling import HeldPull, HeldPulls
from gantrymq.broker.delivery.pull_checks import PullChecks
from gantrymq.broker.delivery.pull_values import PullDone, PullRequest, PullResult, PullStatus
from gantrymq.broker.filtering.selection import Selection
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.message_rights import MessageRights
from gantrymq.broker.metrics.counters import MessageCounters
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.offsets import ConsumerOffsets
from gantrymq.errors import StoreError
from gantrymq.message.sizes import PULL_ANSWER_BYTES
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore
from gantrymq.store.values import GetResult, GetStatus

MAX_SUSPEND_MS: Final = 60_000
"""How long a pull is held at most, whatever the client asks for."""

# A member of an enum is looked up four times a pull, and costs 0.1 us each time when it is not a name of this module.
_READ: Final = GetStatus.FOUND
_FOUND: Final = PullStatus.FOUND
_NO_NEW_MESSAGE: Final = PullStatus.NO_NEW_MESSAGE

_STATUSES: Final[dict[GetStatus, PullStatus]] = {
    GetStatus.FOUND: PullStatus.FOUND,
    GetStatus.NO_MATCHED_MESSAGE: PullStatus.NO_MATCHED_MESSAGE,
    GetStatus.MESSAGE_WAS_REMOVING: PullStatus.NO_MATCHED_MESSAGE,
    GetStatus.NO_MATCHED_LOGIC_QUEUE: PullStatus.OFFSET_ILLEGAL,
    GetStatus.NO_MESSAGE_IN_QUEUE: PullStatus.OFFSET_ILLEGAL,
    GetStatus.OFFSET_FOUND_NULL: PullStatus.NO_NEW_MESSAGE,
    GetStatus.OFFSET_OVERFLOW_ONE: PullStatus.NO_NEW_MESSAGE,
    GetStatus.OFFSET_OVERFLOW_BADLY: PullStatus.OFFSET_ILLEGAL,
    GetStatus.OFFSET_TOO_SMALL: PullStatus.OFFSET_ILLEGAL,
}
"""What the outcome of a read means to a client; an empty queue read from offset 0 is the exception."""
_EMPTY: Final = frozenset({GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE})
_UNREAD: Final = "read the answers to earlier pulls first, then ask again"


class Pulls:
    """Pulls of all clients. ``held`` are those that wait for a message."""

    def __init__(
        self,
        config: LiveConfig,
        store: MessageStore,
        checks: PullChecks,
        offsets: ConsumerOffsets,
        clock: Clock,
        counters: MessageCounters,
        rights: MessageRights | None,
    ) -> None:
        """``rights``: judges what is read from topics of the system; None: the broker has no users."""
        self._config = config
        self._store = store
        self._checks = checks
        self._offsets = offsets
        self._counters = counters
        self._rights = rights
        self.held: Final = HeldPulls(clock, self._resume, self._gather_seconds)
        store.arrivals.append(self.held.arrived_run)

    def pull(self, client: Client, request: PullRequest, done: PullDone) -> PullResult | None:
        """The result; None when the pull is held: then ``done`` gets the outcome later. Raises Refused."""
        if not client.writable:
            # Many pulls at once from a client that does not read would fill our memory with answers.
            raise Refused(Refusal.ANSWERS_UNREAD, _UNREAD)
        self._checks.may_read(request)
        selection = self._checks.selection(request)
        offsets = self._offsets
        if offsets.resets:
            offset = offsets.resets.pop((request.group, request.topic, request.queue_id), None)
            if offset is not None:
                return self._of_reset(request, PullStatus.OFFSET_ILLEGAL, offset)
        offsets.note_pull(request.group, request.topic, request.queue_id, request.offset)
        if request.commit_offset is not None:
            offsets.commit(request.group, request.topic, request.queue_id, request.commit_offset)
        found = self._read(client, request, selection)
        status = _status_of(found, request.offset)
        if status is _NO_NEW_MESSAGE and request.wait_ms is not None:
            pull = HeldPull(client, request, selection, done)
            if self.held.hold(pull, self._suspend_seconds(request.wait_ms)):
                return None
        return self._counted(request, status, found)

    def _of_reset(self, request: PullRequest, status: PullStatus, next_offset: int) -> PullResult:
        """The result of a pull of a queue whose group was moved to another offset by an operator."""
        first, end = self._store.queue_range(request.topic, request.queue_id)
        return PullResult(status, "OFFSET_RESET", next_offset, first, end, b"")

    def _read(self, client: Client, request: PullRequest, selection: Selection) -> GetResult:
        config = self._config
        max_bytes = request.max_bytes or config.pull.max_transfer_bytes_on_message_in_memory
        try:
            found = self._store.get(
                request.topic,
                request.queue_id,
                request.offset,
                max(1, min(request.count, config.pull.max_transfer_count_on_message_in_memory)),
                max(1, min(max_bytes, PULL_ANSWER_BYTES)),
                selection.tag_codes,
                selection.wants,
                selection.terms,
            )
        except StoreError as error:
            raise Refused(Refusal.FAILED, f"reading failed: {error}") from error
        return found if self._rights is None else self._rights.shown(client, request.topic, found, request.group)

    def _counted(self, request: PullRequest, status: PullStatus, found: GetResult) -> PullResult:
        """What was read as a result, counted."""
        records = found.data
        if found.count:
            self._counters.got(request.topic, request.group, found.count, len(records))
        else:
            self._counters.missed += 1
        reason = "FOUND" if status is _FOUND else found.status.value
        return PullResult(status, reason, found.next_offset, found.min_offset, found.max_offset, records)

    # Long polling.

    def _suspend_seconds(self, wait_ms: int) -> float:
        limit_ms = MAX_SUSPEND_MS
        if not self._config.pull.long_polling_enable:
            limit_ms = min(limit_ms, self._config.pull.short_polling_time_mills)
        return min(wait_ms, limit_ms) / 1000

    def _gather_seconds(self) -> float:
        return self._config.pull.long_polling_gather_mills / 1000

    def _resume(self, pull: HeldPull, expired: bool) -> bool:
        """Read again for a held pull; True when it has got its result, False to hold it on."""
        if not pull.client.alive:
            return True
        if not pull.client.writable:
            if expired:
                pull.done(Refused(Refusal.ANSWERS_UNREAD, _UNREAD))
            return expired
        request = pull.request
        if self._offsets.resets and (request.group, request.topic, request.queue_id) in self._offsets.resets:
            # The client asks again, and that pull learns the new offset. This one may be of a member that no longer
            # reads the queue, and the new offset is answered only once.
            pull.done(self._of_reset(request, _NO_NEW_MESSAGE, request.offset))
            return True
        result: PullResult | Refused
        try:
            found = self._read(pull.client, request, pull.selection)
            status = _status_of(found, request.offset)
            if status is _NO_NEW_MESSAGE and not expired:
                return False
            result = self._counted(request, status, found)
        except Refused as refusal:
            result = refusal
        pull.done(result)
        return True


def _status_of(found: GetResult, asked: int) -> PullStatus:
    if found.status is _READ:
        return _FOUND
    if asked == 0 and found.status in _EMPTY:
        return _NO_NEW_MESSAGE
    return _STATUSES[found.status]
