"""What a start of the timer concludes from its files and from the log: which units are real, and what time it is."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from gantrymq.broker.delivery.delivered import NOWHERE, Noted
from gantrymq.broker.delivery.timer_rules import can_be_of
from gantrymq.message.system_topics import TIMER
from gantrymq.store.message_store import MessageStore
from gantrymq.store.recovery.cases import Case
from gantrymq.store.timer_log import TimerLog, Unit


def time_at_start(wall_ms: int, read_ms: int, noted: Noted | None, last: Unit | None) -> int:
    """The time of the timer. ``noted``: what is known of it; None: no message waits in a slot of it, so that it begins
    anew with the wall clock.

    It goes on from where it was, by so much as the wall clock says has passed. It never goes back: not behind the last
    slot that was delivered, and not behind the time at which the last message was noted, however old ``noted`` is.
    """
    if noted is None:
        return max(wall_ms, read_ms)
    last_ms = 0 if last is None else last.written_ms
    return max(wall_ms + noted.timer_ahead_ms, noted.timer_ms, read_ms, last_ms)


def last_with_copies(timer_log: TimerLog, copies: Container[int], now_ms: int) -> int:
    """The last slot of which something had its copy at the start."""
    last = now_ms
    for time_ms in sorted(timer_log.slots) if copies else ():
        if any(unit.log_offset in copies for unit in timer_log.units(time_ms)):
            last = max(last, time_ms)
        elif time_ms > last:
            break
    return last


def first_copy(store: MessageStore, timer_log: TimerLog, copies: Mapping[int, int], not_noted: int) -> int:
    """Log offset of the first copy of a timer message that waits in a slot, or will; ``NOWHERE`` when there is none.

    ``not_noted``: queue offset of the first message that is in no slot yet.
    """
    if not copies:
        return NOWHERE
    waiting = {unit.log_offset for time_ms in timer_log.slots for unit in timer_log.units(time_ms)}
    entries = (store.entry(TIMER, 0, offset) for offset in range(not_noted, store.queue_range(TIMER, 0)[1]))
    waiting |= {entry.log_offset for entry in entries if entry is not None}
    return min((place for made_of, place in copies.items() if made_of in waiting), default=NOWHERE)


def known_units(store: MessageStore) -> Callable[[Unit], bool]:
    """A test for units whose message is in the log, asked in their order.

    After a crash a unit may have only some of its bytes, or name a place that now holds something else. What would be
    delivered too early, or be taken for delivered, is no unit, and neither is what follows: it is noted again.
    """
    clean = store.recovered.case is Case.CLEAN
    offset, end = store.queue_range(TIMER, 0)

    def known(unit: Unit) -> bool:
        nonlocal offset
        if unit.log_offset < store.min_log_offset:
            return True
        if clean:
            return unit.log_offset + unit.size <= store.max_log_offset
        while offset < end:
            entry = store.entry(TIMER, 0, offset)
            if entry is not None and entry.log_offset >= unit.log_offset:
                if (entry.log_offset, entry.size) != (unit.log_offset, unit.size):
                    return False
                message = store.read(unit.log_offset)
                return message is None or can_be_of(message, unit)
            offset += 1
        return False

    return known


def behind_last_unit(store: MessageStore, last: Unit | None) -> int:
    """The queue offset behind the message of the last unit."""
    message = store.read(last.log_offset) if last is not None else None
    return message.queue_offset + 1 if message is not None and message.topic == TIMER else 0
