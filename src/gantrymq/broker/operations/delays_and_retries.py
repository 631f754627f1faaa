"""Messages whose properties or topic change where they go: delayed, timed, to a retry topic or to the dead letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from gantrymq.broker.delivery.timer_rules import TimerRules
from gantrymq.broker.durability import refusal
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.groups import Groups
from gantrymq.broker.registries.topics import PERM_READ_WRITE, Topics
from gantrymq.broker.submission import Submission
from gantrymq.errors import MessageIllegal
from gantrymq.message import properties, system_topics
from gantrymq.runtime.steady import SteadyTime

NOT_THE_SENDERS: Final = properties.BROKER_ONLY | {properties.REGION, properties.TRACE_ON, properties.CLUSTER}
"""Properties that are taken off an incoming message: only the broker sets them."""
_TIMERS: Final = properties.DELAYS - {properties.DELAY}


class DelaysAndRetries:
    """Finds out where and when such a message goes."""

    def __init__(
        self, topics: Topics, groups: Groups, time: SteadyTime, delays_ms: Sequence[int], rules: TimerRules,
        timer_ms: Callable[[], int] | None,
    ) -> None:  # fmt: skip
        """``timer_ms``: the time of the timer; None when timer messages are refused (timerWheelEnable=false)."""
        self._topics = topics
        self._groups = groups
        self._time = time
        self.delays_ms = delays_ms
        self._rules = rules
        self._timer_ms = timer_ms

    def now_ms(self) -> int:
        """The wall clock, for the time until which a message waits."""
        return self._time.wall_ms()

    def time_of(self, text: str, level: int, waited: bool) -> tuple[str, int | None]:
        """The properties without what does not count, and the time (ms) a timer message waits for; None when it waits
        for none. ``level``: its delay level, which wins. ``waited``: it has waited already. Raises Refused."""
        if level > 0:
            return properties.without(text, _TIMERS), None
        if waited or not any(properties.find(text, name) for name in _TIMERS):
            return text, None
        if self._timer_ms is None:
            raise Refused(
                Refusal.FAILED,
                "accurate timer message is not enabled, timerWheelEnable is false; use a delay level (DELAY) instead",
            )
        try:
            return text, self._rules.slot_of(text, self._time.wall_ms(), self._timer_ms())
        except MessageIllegal as error:
            raise refusal(error) from error

    def retry_or_dead_letter(
        self, message: Submission, queue_id: int, level: int, counts_last_delivery: bool
    ) -> tuple[str, int, int]:
        """Topic, queue and delay level of a message that a consumer sends to its retry topic by itself.

        Raises Refused when the group does not exist.
        """
        group_name = message.topic[len(system_topics.RETRY_PREFIX) :]
        group = self._groups.find(group_name)
        if group is None:
            raise Refused(Refusal.GROUP_UNKNOWN, f"subscription group not exist, {group_name}")
        times = message.reconsume_times or 0
        limit = group.retry_max_times if message.max_reconsume_times is None else message.max_reconsume_times
        exceeded = times > limit if counts_last_delivery else times >= limit
        if not exceeded or times == 0:
            return message.topic, queue_id, level
        topic = system_topics.dead_letter_topic(group_name)
        self._topics.ensure(topic, 1, PERM_READ_WRITE)
        return topic, 0, 0


def number_of(text: str | None) -> int:
    """A number in a property; 0 when absent or malformed, like Java's broker treats a level it cannot read."""
    try:
        return int(text) if text else 0
    except ValueError:
        return 0
