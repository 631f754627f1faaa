"""Sending several half messages of one topic together. They are stored in one append, and answered once.

Each of them is a transaction of its own, which is ended or checked like any other half message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from gantrymq.broker.client import Client
from gantrymq.broker.durability import Done, Durability, refusal
from gantrymq.broker.operations.admission import SENDER_FLAGS, Admission, Target, check_properties, separated
from gantrymq.broker.operations.half_messages import HalfMessages, PlacedHalf
from gantrymq.broker.operations.properties_text import NOT_ORDINARY, read_ordinary
from gantrymq.broker.operations.send_half import ORDINARY_KEY_CHARACTERS, HalfSends
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.submission import Submission
from gantrymq.errors import MessageIllegal, StoreError
from gantrymq.message import properties
from gantrymq.message.sizes import HALF_HEADROOM_BYTES
from gantrymq.message.submission import BatchItem
from gantrymq.protocol.stored_message import Birth
from gantrymq.store.log.appender import RunItem
from gantrymq.store.values import NewRecord

HALVES_MAX: Final = 4_096
"""Half messages in one request. With more of them, one request would block the broker's loop for too long."""

HalvesAnswered: TypeAlias = Callable[[Sequence[PlacedHalf] | Refused], None]
"""Called once, with the places of all half messages in the order of the request when all of them are safe, or with the
reason why one of them is not."""

_NOT_COMMON: Final = NOT_ORDINARY - {properties.CHECK_IMMUNITY_SECONDS} - properties.DELAYS
"""Taken off the properties of the request, as off those of a single half message."""


class _Waiting:
    """The half messages of one request until all of them are safe."""

    __slots__ = ("_answered", "_left", "_places")

    def __init__(self, count: int, answered: HalvesAnswered | None) -> None:
        self._left = count
        self._places: list[PlacedHalf | None] = [None] * count
        self._answered = answered

    def stored(self, index: int, half: PlacedHalf, error: StoreError | None) -> None:
        self._left -= 1
        if self._answered is None:
            return
        if error is not None:
            answered, self._answered = self._answered, None
            answered(refusal(error))
            return
        self._places[index] = half
        if not self._left:
            self._answered([place for place in self._places if place is not None])

    def refuse(self) -> None:
        """The request was refused: what was stored before is not answered."""
        self._answered = None


class HalvesSends:
    """Takes requests with several half messages."""

    def __init__(
        self, admission: Admission, durability: Durability, sends: HalfSends, halves: HalfMessages, stamp: str
    ) -> None:
        """``stamp``: the properties that the broker adds to every message."""
        self._admission = admission
        self._durability = durability
        self._sends = sends
        self._halves = halves
        self._stamp = stamp

    def send(
        self, client: Client, batch: Submission, body_bytes: int, items: Sequence[BatchItem],
        answered: HalvesAnswered | None,
    ) -> None:  # fmt: skip
        """Store ``items``. The properties of ``batch`` are added to each of them; they name the producer group.

        Half messages that were sent before and are still open are joined, each by its key, so the request may be
        repeated. Raises Refused; then some of them may be stored, and a repeated request joins those.
        """
        if self._durability.limited:
            self._durability.check_waiting()
        target = self._admission.target(batch)
        self._admission.check_body(body_bytes)
        if not 0 < len(items) <= HALVES_MAX or target.is_retry:
            raise Refused(
                Refusal.MESSAGE_ILLEGAL, f"send 1 to {HALVES_MAX} half messages in one request, to an ordinary topic"
            )
        common = properties.without(separated(batch.properties), _NOT_COMMON)
        group = self._group_of(batch, target, common)
        queue_id = self._admission.queue(batch.queue_id, target, batch.topic)
        common += self._stamp
        run = [_read(item, common) for item in items]
        birth = (batch.born_timestamp, client.host, 0, batch.sys_flag & SENDER_FLAGS, 0)
        finish = self._finish(target, answered)
        try:
            if not self._halves.put_run(batch.topic, queue_id, group, run, common, birth, partial(_stored, finish)):
                self._one_by_one(batch.topic, queue_id, group, run, birth, finish)
        except (MessageIllegal, StoreError) as error:
            raise refusal(error) from error

    def _one_by_one(
        self, topic: str, queue_id: int, group: str, run: Sequence[RunItem], birth: Birth,
        answered: HalvesAnswered | None,
    ) -> None:  # fmt: skip
        """Store half messages of which one joins an open one, or which are uncommon in another way."""
        waiting = _Waiting(len(run), answered)
        born_timestamp, born_host, _, sys_flag, _ = birth
        try:
            for index, (body, text, flag, key, tags_code) in enumerate(run):
                record = NewRecord(topic, queue_id, body, text, born_timestamp, born_host, flag, sys_flag)
                record.tags_code = tags_code
                self._halves.put_half(record, group, key or "", partial(waiting.stored, index))
        except (MessageIllegal, StoreError):
            waiting.refuse()
            raise

    def _group_of(self, batch: Submission, target: Target, common: str) -> str:
        """The producer group that is asked about these half messages. Raises Refused."""
        self._sends.check(batch, target, common)
        group = properties.find(common, properties.PRODUCER_GROUP)
        if group is None or properties.find(common, properties.TRANSACTION_PREPARED) != "true":
            raise Refused(
                Refusal.MESSAGE_ILLEGAL, "the properties of the request must name the producer group, and have TRAN_MSG"
            )
        return group

    def _finish(self, target: Target, answered: HalvesAnswered | None) -> HalvesAnswered | None:
        if answered is None or not target.made_topic:
            return answered

        def later(result: Sequence[PlacedHalf] | Refused) -> None:
            finish: Done = lambda _error: answered(result)  # noqa: E731 - a Done that carries its result
            self._admission.when_known(finish)(None)

        return later


def _stored(answered: HalvesAnswered | None, halves: Sequence[PlacedHalf], error: StoreError | None) -> None:
    if answered is not None:
        answered(halves if error is None else refusal(error))


def _read(item: BatchItem, common: str) -> RunItem:
    """An item as it is stored, but for its place. Raises Refused."""
    flag, body, text = item
    text = separated(text)
    found = read_ordinary(text)
    if found is None:
        raise Refused(
            Refusal.MESSAGE_ILLEGAL, "a half message of the request has a property that only the request may have"
        )
    key, group, tags_code, _, is_half = found
    if not key or len(key) > ORDINARY_KEY_CHARACTERS or group is not None or is_half or not body:
        raise Refused(
            Refusal.MESSAGE_ILLEGAL,
            f"each half message needs a body, a UNIQ_KEY of at most {ORDINARY_KEY_CHARACTERS} characters, and no "
            "group of its own",
        )
    text += common
    check_properties(text, HALF_HEADROOM_BYTES + ORDINARY_KEY_CHARACTERS)
    return body, text, flag, key, tags_code
