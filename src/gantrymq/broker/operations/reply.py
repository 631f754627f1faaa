"""Request and reply over messages: the answer to a request is handed to the producer that asked.

The requester is found by the client id that travels in the message. The replier hears how that went; the reply is also
stored when the settings say so, whether or not it reached the requester.
Source: ReplyMessageProcessor; docs/protocol.md#request-and-reply.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from gantrymq.broker.client import Client
from gantrymq.broker.durability import Durability
from gantrymq.broker.live_config import LiveConfig
from gantrymq.broker.operations.admission import (
    SENDER_FLAGS,
    Admission,
    check_properties,
    separated,
    unique_key_of,
    waits,
)
from gantrymq.broker.pushes import Reply
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.registries.clients import ProducerGroups
from gantrymq.broker.submission import Stored, Submission
from gantrymq.errors import StoreError
from gantrymq.message import properties
from gantrymq.runtime.clock import Clock
from gantrymq.store.log.conditions import Unconfirmed
from gantrymq.store.values import NewRecord, Placement

log = logging.getLogger("gantrymq.broker")

REQUESTER_SECONDS: Final = 10.0
"""How long the requester may take to say that it has its reply."""


@dataclass(frozen=True, slots=True)
class Handed:
    """The requester has its reply."""

    queue_id: int
    stored: Stored | None
    """Where the reply was stored; None when it was not."""


ReplyAnswered: TypeAlias = Callable[[Handed | Refused], None]


@dataclass(frozen=True, slots=True)
class _OnItsWay:
    replier: Client
    reply: Submission
    body: bytes
    queue_id: int
    text: str
    """Its properties."""
    answered: ReplyAnswered


class Replies:
    """Hands replies on."""

    def __init__(
        self,
        config: LiveConfig,
        admission: Admission,
        durability: Durability,
        producers: ProducerGroups,
        clock: Clock,
        address: str,
    ) -> None:
        """``address``: this broker's, as clients know it."""
        self._config = config
        self._admission = admission
        self._durability = durability
        self._producers = producers
        self._clock = clock
        self._address = address

    def reply(self, replier: Client, reply: Submission, body: bytes, answered: ReplyAnswered) -> None:
        """Hand a reply to its requester; ``answered`` is called once, when the requester has answered or its time is
        over. Raises Refused; then ``answered`` is not called.
        """
        target = self._admission.target(reply)
        self._admission.check_body(len(body))
        queue_id = self._admission.queue(reply.queue_id, target, reply.topic)
        text = properties.without(separated(reply.properties), properties.BROKER_ONLY)
        check_properties(text)
        under_way = _OnItsWay(replier, reply, body, queue_id, text, answered)
        client_id = properties.find(text, properties.REPLY_TO_CLIENT)
        if client_id is None:
            self._finish(under_way, f"reply message properties[{properties.REPLY_TO_CLIENT}] is null")
            return
        requester = self._producers.session_of(client_id)
        if requester is None:
            self._finish(under_way, f"push reply message fail, channel of <{client_id}> not found.")
            return
        requester.hand_reply(self._handed(under_way), REQUESTER_SECONDS, partial(self._pushed, under_way, client_id))

    def _handed(self, under_way: _OnItsWay) -> Reply:
        now_ms = self._clock.wall_ms()
        text = f"{under_way.text}{properties.PUSH_REPLY_TIME}\x01{now_ms}\x02"
        return Reply(under_way.reply, text, under_way.body, under_way.replier.address, self._address, now_ms)

    def _pushed(self, under_way: _OnItsWay, client_id: str, problem: str | None) -> None:
        """The requester has it, or does not."""
        if problem is None:
            self._finish(under_way, None)
            return
        log.warning("a reply to %s was not taken: %s", client_id, problem)
        self._finish(under_way, f"push reply message to {client_id}fail.")

    def _finish(self, under_way: _OnItsWay, problem: str | None) -> None:
        """Store the reply when it is to be stored, then answer the replier."""
        if not self._config.topics.store_reply_message_enable:
            _answer(under_way, problem, None)
            return
        reply = under_way.reply
        record = NewRecord(
            reply.topic, under_way.queue_id, under_way.body, under_way.text, reply.born_timestamp,
            under_way.replier.host, reply.flag, reply.sys_flag & SENDER_FLAGS, reply.reconsume_times or 0,
        )  # fmt: skip
        try:
            place = self._durability.append((record,))[0]
        except Refused as refusal:
            log.warning("a reply is not stored: %s", refusal.remark)
            _answer(under_way, problem, None)
            return
        self._durability.when_stored(place.end, waits(under_way.text), partial(_stored, under_way, problem, place))


def _stored(under_way: _OnItsWay, problem: str | None, place: Placement, error: StoreError | None) -> None:
    stored = error is None or isinstance(error, Unconfirmed)
    if error is not None:
        log.warning("a reply is %s: %s", "not confirmed" if stored else "not stored", error)
    _answer(under_way, problem, place if stored else None)


def _answer(under_way: _OnItsWay, problem: str | None, place: Placement | None) -> None:
    """What counts for the replier is whether the requester has it."""
    if problem is not None:
        under_way.answered(Refused(Refusal.FAILED, problem))
        return
    stored = None
    if place is not None:
        stored = Stored(place.log_offset, place.queue_offset, under_way.queue_id, unique_key_of(under_way.text))
    under_way.answered(Handed(under_way.queue_id, stored))
