"""SEND_REPLY_MESSAGE and its V2: the answer to a request is handed to the producer that asked.

The requester is found by the client id that travels in the message. The replier hears how that went; the reply is also
stored when the settings say so, whether or not it reached the requester. Source: ReplyMessageProcessor;
docs/protocol.md#request-and-reply.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Final

from gantrymq.broker.config import BrokerConfig
from gantrymq.broker.durability import Durability
from gantrymq.broker.operations.admission import (
    SENDER_FLAGS,
    Admission,
    check_properties,
    separated,
    unique_key_of,
    waits,
)
from gantrymq.broker.operations.submission import Stored
from gantrymq.broker.pushes import Reply
from gantrymq.broker.refusal import Refused
from gantrymq.broker.registries.clients import ProducerGroups
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.send_answers import SendAnswers
from gantrymq.errors import StoreError
from gantrymq.message import properties
from gantrymq.protocol.codes import RequestCode, ResponseCode
from gantrymq.protocol.command import Command, encode_response
from gantrymq.protocol.headers.send import SendMessage, SendMessageLong
from gantrymq.protocol.hosts import pack_host
from gantrymq.runtime.clock import Clock
from gantrymq.store.log.conditions import Unconfirmed
from gantrymq.store.values import NewRecord, Placement

SendHeader = SendMessage | SendMessageLong

log = logging.getLogger("gantrymq.broker")

REQUESTER_SECONDS: Final = 10.0
"""How long the requester may take to say that it has its reply."""


@dataclass(frozen=True, slots=True)
class _Reply:
    """One reply on its way."""

    session: ClientSession
    """Of the replier."""
    command: Command
    header: SendHeader
    queue_id: int
    text: str
    """Its properties."""


class SendReplyProcessor:
    """Handles SEND_REPLY_MESSAGE and SEND_REPLY_MESSAGE_V2; answered when the requester has answered."""

    def __init__(
        self,
        config: BrokerConfig,
        admission: Admission,
        durability: Durability,
        answers: SendAnswers,
        producers: ProducerGroups,
        clock: Clock,
        address: str,
    ) -> None:
        """``address``: this broker's, as clients know it."""
        self._config = config
        self._admission = admission
        self._durability = durability
        self._answers = answers
        self._producers = producers
        self._clock = clock
        self._address = address

    def send_reply(self, session: ClientSession, command: Command) -> None:
        long_names = command.code == RequestCode.SEND_REPLY_MESSAGE
        header: SendHeader = command.header(SendMessageLong) if long_names else command.header(SendMessage)
        target = self._admission.target(header)
        self._admission.check_body(len(command.body))
        queue_id = self._admission.queue(header.queue_id, target, header.topic)
        text = properties.without(separated(header.properties), properties.BROKER_ONLY)
        check_properties(text)
        reply = _Reply(session, command, header, queue_id, text)
        client_id = properties.find(text, properties.REPLY_TO_CLIENT)
        if client_id is None:
            self._finish(reply, f"reply message properties[{properties.REPLY_TO_CLIENT}] is null")
            return
        requester = self._producers.session_of(client_id)
        if requester is None:
            self._finish(reply, f"push reply message fail, channel of <{client_id}> not found.")
            return
        requester.hand_reply(self._handed(reply), REQUESTER_SECONDS, partial(self._pushed, reply, client_id))

    def _handed(self, reply: _Reply) -> Reply:
        header, now_ms = reply.header, self._clock.wall_ms()
        return Reply(
            producer_group=header.producer_group, topic=header.topic, default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums, queue_id=header.queue_id,
            sys_flag=header.sys_flag, born_timestamp=header.born_timestamp, flag=header.flag,
            properties=f"{reply.text}{properties.PUSH_REPLY_TIME}\x01{now_ms}\x02",
            reconsume_times=header.reconsume_times, unit_mode=header.unit_mode,
            born_address=reply.session.address, store_address=self._address, store_timestamp=now_ms,
            body=reply.command.body,
        )  # fmt: skip

    def _pushed(self, reply: _Reply, client_id: str, problem: str | None) -> None:
        """The requester has it, or does not."""
        if problem is None:
            self._finish(reply, None)
            return
        log.warning("a reply to %s was not taken: %s", client_id, problem)
        self._finish(reply, f"push reply message to {client_id}fail.")

    def _finish(self, reply: _Reply, problem: str | None) -> None:
        """Store the reply when it is to be stored, then answer the replier."""
        if not self._config.store_reply_message_enable:
            self._answer(reply, problem, None)
            return
        header = reply.header
        record = NewRecord(
            header.topic, reply.queue_id, reply.command.body, reply.text, header.born_timestamp,
            pack_host(reply.session.peer), header.flag, header.sys_flag & SENDER_FLAGS, header.reconsume_times or 0,
        )  # fmt: skip
        try:
            place = self._durability.append((record,))[0]
        except Refused as refusal:
            log.warning("a reply is not stored: %s", refusal.remark)
            self._answer(reply, problem, None)
            return
        self._durability.when_stored(
            place.end, waits(reply.text), lambda error: self._stored(reply, problem, place, error)
        )

    def _stored(self, reply: _Reply, problem: str | None, place: Placement, error: StoreError | None) -> None:
        stored = error is None or isinstance(error, Unconfirmed)
        if error is not None:
            log.warning("a reply is %s: %s", "not confirmed" if stored else "not stored", error)
        self._answer(reply, problem, place if stored else None)

    def _answer(self, reply: _Reply, problem: str | None, place: Placement | None) -> None:
        """What counts for the replier is whether the requester has it."""
        if reply.command.is_one_way:
            return
        if problem is not None:
            answer = encode_response(reply.command, ResponseCode.SYSTEM_ERROR, remark=problem)
        elif place is None:
            answer = self._answers.not_stored(reply.command, reply.queue_id)
        else:
            key = unique_key_of(reply.text)
            stored = Stored(place.log_offset, place.queue_offset, reply.queue_id, key)
            answer = self._answers.stored(reply.command, stored)
        reply.session.send(answer)
