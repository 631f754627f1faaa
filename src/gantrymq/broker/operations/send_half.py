"""Sending a half message. One that could not be checked, delivered or parked later is refused here."""

from __future__ import annotations

from functools import partial
from typing import Final

from gantrymq.broker.durability import Done, refusal
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.operations.admission import Admission, Target, check_properties, is_set
from gantrymq.broker.operations.half_messages import HalfMessages, PlacedHalf
from gantrymq.broker.operations.message_types import check_kind
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.submission import Answered, Stored, Submission, answer, not_safe
from gantrymq.errors import MessageIllegal, StoreError
from gantrymq.message import properties, system_topics
from gantrymq.message.message_types import TRANSACTION
from gantrymq.message.sizes import HALF_HEADROOM_BYTES
from gantrymq.store.values import NewRecord

ORDINARY_KEY_CHARACTERS: Final = 255
"""A half message with a longer unique key has its room checked: the key is stored twice. Those of clients have 32."""
"""Message types of topics that take half messages; None: the topic was given none."""
_DELAYS: Final = tuple(sorted(properties.DELAYS))
"""Each of these names has "DEL" in it."""


class HalfSends:
    """Takes half messages."""

    def __init__(self, config: LiveConfig, admission: Admission, halves: HalfMessages) -> None:
        self._config = config
        self._admission = admission
        self._halves = halves

    def send_ordinary(
        self, message: Submission, record: NewRecord, target: Target, group: str, key: str, answered: Answered | None
    ) -> None:
        """Store a half whose properties were read by ``read_ordinary``. Raises Refused."""
        if self._config.transactions.reject_transaction_message:
            self.check(message, target, record.properties)
        try:
            self._halves.put_half(
                record, group, key, partial(self._stored, answered, record.queue_id, key, target.made_topic)
            )
        except (MessageIllegal, StoreError) as error:
            raise refusal(error) from error

    def send(
        self, message: Submission, record: NewRecord, target: Target, stamp: str, key: str, answered: Answered | None
    ) -> None:
        """Store any half. ``stamp``: the properties that the broker adds; ``key``: its unique key. Raises Refused."""
        self.check(message, target, record.properties)
        group = properties.find(record.properties, properties.PRODUCER_GROUP)
        if group is None:
            group = message.producer_group
            record.properties += f"{properties.PRODUCER_GROUP}\x01{group}\x02"
        record.properties += stamp
        check_properties(record.properties, HALF_HEADROOM_BYTES + len(key.encode()))  # it is stored twice
        self.send_ordinary(message, record, target, group, key, answered)

    def _stored(
        self, answered: Answered | None, queue_id: int, key: str, made_topic: bool, half: PlacedHalf,
        error: StoreError | None,
    ) -> None:  # fmt: skip
        if answered is None:
            return
        stored = Stored(half.log_offset, half.queue_offset, queue_id, key)
        if not made_topic:
            answered(stored if error is None else not_safe(stored, error))
            return
        finish: Done = partial(answer, answered, stored)
        self._admission.when_known(finish)(error)

    def check(self, message: Submission, target: Target, text: str) -> None:
        """Raise Refused unless half messages with these properties may be sent to a topic."""
        if self._config.transactions.reject_transaction_message:
            raise Refused(
                Refusal.NOT_PERMITTED,
                f"the broker[{self._config.network.broker_ip1}] sending transaction message is forbidden",
            )
        problem = None
        if target.kinds is not None:
            check_kind(TRANSACTION, message.topic, target.kinds)
        delay = next((name for name in _DELAYS if is_set(text, name)), None) if "DEL" in text else None
        if delay is not None:
            problem = f"a transactional message cannot be delayed; remove the property {delay}"
        if properties.find(text, properties.PRODUCER_GROUP) is None:
            try:
                system_topics.check_group(message.producer_group)
            except MessageIllegal as error:
                problem = f"a transactional message needs its producer group: {error}"
        if problem is not None:
            raise Refused(Refusal.MESSAGE_ILLEGAL, problem)
