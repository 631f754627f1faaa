"""POP_MESSAGE (200050), PEEK_MESSAGE (200052), NOTIFICATION (200054), POLLING_INFO (200055).

Source: PopMessageProcessor, PeekMessageProcessor, NotificationProcessor, PollingInfoProcessor; docs/protocol.md#pop.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from gantrymq.broker.filtering.predicate import SelectorInvalid
from gantrymq.broker.filtering.selection import EVERYTHING, Selection, by_expression, is_tag_type
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.operations.selectors import require_property_filter
from gantrymq.broker.pop.batch import as_first_sent
from gantrymq.broker.pop.consumption import MAX_COUNT, PopConsumption, Popped, Wanted
from gantrymq.broker.pop.waiting import Waiter, Waiting
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.pop_checks import PopChecks
from gantrymq.broker.remoting.refusals import rejected
from gantrymq.broker.upkeep.statistics import Statistics
from gantrymq.errors import StoreError
from gantrymq.protocol.codes import ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.pop import (
    Notification,
    NotificationAnswer,
    PeekMessage,
    PopMessage,
    PopMessageAnswer,
    WaitingPops,
    WaitingPopsAnswer,
)
from gantrymq.protocol.receipt_handle import message_offset_info, order_count_info, start_offset_info
from gantrymq.runtime.clock import Clock
from gantrymq.store.message_store import MessageStore

FROM_START: Final = 1
"""``initMode``: begin at the start of a queue."""
TOO_LATE_MS: Final = 500
"""A request whose waiting time ended longer ago than this is not executed: its client has gone on, and what it popped
would be invisible for nothing."""
EARLY_MS: Final = 50
"""How much before the end of its waiting time a request is answered."""
MAX_WAIT_MS: Final = 60_000
"""How long a request is held at most, whatever the client asks for."""
MAX_INVISIBLE_MS: Final = 7 * 24 * 3600 * 1000
"""A message that nobody sees for longer could be gone when its time has come."""


class PopProcessor:
    """Hands out messages for a time."""

    def __init__(
        self, config: LiveConfig, checks: PopChecks, consumption: PopConsumption, store: MessageStore, clock: Clock,
        statistics: Statistics,
    ) -> None:  # fmt: skip
        self._config = config
        self._checks = checks
        self._consumption = consumption
        self._clock = clock
        self._statistics = statistics
        self.waiting = Waiting(clock, config.pop.pop_polling_size, config.pop.max_pop_polling_size)
        store.arrivals.append(self.waiting.arrived)
        consumption.opened = self.waiting.wake

    def pop(self, session: ClientSession, command: Command) -> bytes | None:
        if not session.writable:
            raise Refused(Refusal.ANSWERS_UNREAD, "read the answers to earlier pops first, then ask again")
        header = command.header(PopMessage)
        wait_ms = self._wait_ms(header.born_time, header.poll_time)
        if wait_ms < -TOO_LATE_MS:
            raise Refused(
                Refusal.WAIT_OVER, f"the broker[{self._config.network.broker_ip1}] pop message is timeout too much"
            )
        if header.max_msg_nums > MAX_COUNT:
            raise Refused(
                Refusal.PARAMETER_INVALID,
                f"the broker[{self._config.network.broker_ip1}] pop message's num is greater than {MAX_COUNT}",
            )
        if not 0 <= header.invisible_time <= MAX_INVISIBLE_MS:
            raise Refused(
                Refusal.PARAMETER_INVALID, f"invisibleTime is {header.invisible_time}; 0 to {MAX_INVISIBLE_MS} ms"
            )
        self._checks.may_read(header.topic, header.queue_id, header.consumer_group)
        wanted = Wanted(
            header.consumer_group, header.topic, header.queue_id, max(1, header.max_msg_nums), header.invisible_time,
            header.init_mode == FROM_START, self._selection(header), bool(header.order), header.attempt_id,
        )  # fmt: skip
        popped = self._pop(session, command, wanted)
        if popped.batches:
            return None
        if wait_ms <= EARLY_MS:
            return _nothing(command, ResponseCode.POLLING_TIMEOUT, wanted, popped)
        if self.waiting.is_full(wanted.topic, wanted.group, wanted.queue_id):
            return _nothing(command, ResponseCode.POLLING_FULL, wanted, popped)
        self._hold(session, command, wanted, popped, wait_ms)
        return None

    def _selection(self, header: PopMessage) -> Selection:
        try:
            selection = by_expression(header.exp, header.exp_type)
        except SelectorInvalid as error:
            raise Refused(Refusal.SELECTOR_INVALID, f"parse the consumer's subscription failed: {error}") from error
        if not is_tag_type(header.exp_type):
            require_property_filter(self._config, header.exp_type)
        return selection

    def _wait_ms(self, born_time: int, poll_time: int) -> int:
        """How long a request may still be held; negative when its time is over."""
        waited = self._clock.wall_ms() - born_time if born_time > 0 else 0
        return min(poll_time, MAX_WAIT_MS, poll_time - waited)

    def _pop(self, session: ClientSession, command: Command, wanted: Wanted) -> Popped:
        popped = self._consumption.pop(wanted, partial(self._give, session, command, wanted))
        if popped.rest > 0 and (popped.batches or popped.passed_over):
            self.waiting.wake(wanted.topic, wanted.group)
        return popped

    def _hold(self, session: ClientSession, command: Command, wanted: Wanted, popped: Popped, wait_ms: int) -> None:
        def resume(expired: bool) -> bool:
            if not session.writable:
                return False
            try:
                found = self._pop(session, command, wanted)
            except Refused as refusal:
                session.send(rejected(command, refusal))
                return True
            if found.batches:
                return True
            if expired:
                session.send(_nothing(command, ResponseCode.POLLING_TIMEOUT, wanted, found))
                return True
            waiter.wake_at = self._opens_at(found)
            return False

        now = self._clock.monotonic()
        waiter = Waiter(
            session, wanted.topic, wanted.group, wanted.queue_id, wanted.selection, now + (wait_ms - EARLY_MS) / 1000,
            resume, self._opens_at(popped),
        )  # fmt: skip
        self.waiting.hold(waiter)

    def _opens_at(self, popped: Popped) -> float | None:
        if popped.passed_over:
            return self._clock.monotonic()
        if popped.blocked_until is None:
            return None
        return self._clock.monotonic() + (popped.blocked_until - popped.pop_time) / 1000

    def _give(
        self, session: ClientSession, command: Command, wanted: Wanted, popped: Popped, error: StoreError | None
    ) -> None:
        if error is not None:
            session.send(encode_response(command, ResponseCode.SYSTEM_ERROR, remark=str(error)))
            return
        batches = popped.batches
        for batch in batches:
            self._statistics.got(batch.topic, wanted.group, len(batch.offsets), len(batch.data))
        header = PopMessageAnswer(
            pop_time=popped.pop_time, invisible_time=wanted.invisible_time, revive_qid=popped.revive_queue,
            rest_num=popped.rest,
            start_offset_info=start_offset_info((batch.kind, batch.queue_id, batch.start_offset) for batch in batches),
            msg_offset_info=message_offset_info((batch.kind, batch.queue_id, batch.offsets) for batch in batches),
            order_count_info=order_count_info(
                (batch.kind, batch.queue_id, batch.offsets, batch.counts) for batch in batches
            ) if wanted.order else None,
        )  # fmt: skip
        session.send(encode_response(command, ResponseCode.SUCCESS, header, self._body(wanted, popped), remark="FOUND"))

    def _body(self, wanted: Wanted, popped: Popped) -> bytes:
        if self._config.pop.pop_response_return_actual_retry_topic:
            return b"".join(batch.data for batch in popped.batches)
        return b"".join(
            as_first_sent(
                batch, wanted.topic, popped.pop_time, wanted.invisible_time, popped.revive_queue,
                self._config.identity.broker_name,
            )
            for batch in popped.batches
        )  # fmt: skip

    # Looking without taking.

    def peek(self, session: ClientSession, command: Command) -> bytes:
        header = command.header(PeekMessage)
        self._checks.may_read(header.topic, header.queue_id, header.consumer_group)
        count = max(1, min(header.max_msg_nums, MAX_COUNT))
        popped = self._consumption.peek(Wanted(header.consumer_group, header.topic, header.queue_id, count, 0))
        code, remark = ResponseCode.SUCCESS, "FOUND"
        if not popped.batches:
            code, remark = ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE"
        answer = PopMessageAnswer(pop_time=0, invisible_time=0, revive_qid=0, rest_num=popped.rest)
        return encode_response(command, code, answer, b"".join(batch.data for batch in popped.batches), remark=remark)

    def notification(self, session: ClientSession, command: Command) -> bytes | None:
        header = command.header(Notification)
        self._checks.may_read(header.topic, header.queue_id, header.consumer_group)
        wanted = Wanted(
            header.consumer_group, header.topic, header.queue_id, 1, 0, order=bool(header.order),
            attempt_id=header.attempt_id,
        )  # fmt: skip
        found = self._consumption.has_message(wanted)
        wait_ms = self._wait_ms(header.born_time, header.poll_time)
        if found or wait_ms <= EARLY_MS:
            return encode_response(command, ResponseCode.SUCCESS, NotificationAnswer(has_msg=found))
        if self.waiting.is_full(wanted.topic, wanted.group, wanted.queue_id):
            return encode_response(command, ResponseCode.SUCCESS, NotificationAnswer(has_msg=False, polling_full=True))

        def resume(expired: bool) -> bool:
            has_message = self._consumption.has_message(wanted)
            if has_message or expired:
                session.send(encode_response(command, ResponseCode.SUCCESS, NotificationAnswer(has_msg=has_message)))
            if has_message:
                # The message that woke this one is still there for a pop that waits behind it.
                self.waiting.wake(wanted.topic, wanted.group)
            return has_message or expired

        deadline = self._clock.monotonic() + (wait_ms - EARLY_MS) / 1000
        self.waiting.hold(Waiter(session, wanted.topic, wanted.group, wanted.queue_id, EVERYTHING, deadline, resume))
        return None

    def polling_info(self, session: ClientSession, command: Command) -> bytes:
        header = command.header(WaitingPops)
        self._checks.may_read(header.topic, header.queue_id, header.consumer_group)
        count = self.waiting.count(header.topic, header.consumer_group, header.queue_id)
        return encode_response(command, ResponseCode.SUCCESS, WaitingPopsAnswer(polling_num=count))


def _nothing(command: Command, code: ResponseCode, wanted: Wanted, popped: Popped) -> bytes:
    answer = PopMessageAnswer(
        pop_time=popped.pop_time, invisible_time=wanted.invisible_time, revive_qid=popped.revive_queue,
        rest_num=popped.rest, start_offset_info="", msg_offset_info="", order_count_info="" if wanted.order else None,
    )  # fmt: skip
    return encode_response(command, code, answer, remark="NO_MESSAGE_IN_QUEUE")
