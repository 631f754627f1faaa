"""SEND_BATCH_MESSAGE: ordinary messages for one queue, stored together. Source: wire-protocol.md 4.6."""

from __future__ import annotations

from functools import partial

from gantrymq.broker.durability import Done, Durability
from gantrymq.broker.operations.admission import (
    SENDER_FLAGS,
    Admission,
    check_properties,
    is_set,
    separated,
    unique_key_of,
    waits,
    with_unique_key,
)
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.remoting.client_session import ClientSession
from gantrymq.broker.remoting.send_answers import SendAnswers, answer_to
from gantrymq.errors import StoreError
from gantrymq.message import properties, system_topics
from gantrymq.protocol.batch import BatchItem, split_batch
from gantrymq.protocol.command import Command
from gantrymq.protocol.headers.send import SendMessage
from gantrymq.protocol.message_ids import UniqueIds
from gantrymq.store.values import NewRecord, Placement


class SendBatchProcessor:
    """A batch is stored whole or refused whole, and answered once."""

    def __init__(
        self, admission: Admission, durability: Durability, answers: SendAnswers, unique_ids: UniqueIds
    ) -> None:
        self._admission = admission
        self._durability = durability
        self._answers = answers
        self._unique_ids = unique_ids

    def send_batch(self, session: ClientSession, command: Command) -> bytes | None:
        header = command.header(SendMessage)
        target = self._admission.target(header)
        self._admission.check_body(len(command.body))
        if target.is_retry or header.topic.startswith(system_topics.DEAD_LETTER_PREFIX):
            raise Refused(Refusal.MESSAGE_ILLEGAL, "batch request does not support retry group")
        queue_id = self._admission.queue(header.queue_id, target, header.topic)
        born_host = session.host
        places = self._durability.append(
            [
                NewRecord(
                    header.topic, queue_id, item.body, self._item_properties(item), header.born_timestamp, born_host,
                    item.flag, header.sys_flag & SENDER_FLAGS,
                )
                for item in split_batch(command.body)
            ]
        )  # fmt: skip
        if not command.is_one_way:
            text = header.properties or ""
            finish: Done = partial(self._finish, session, command, places, queue_id, unique_key_of(text))
            if self._admission.made_topic:
                finish = self._admission.when_known(finish)
            self._durability.when_stored(places[-1].end, waits(text), finish)
        return None

    def _item_properties(self, item: BatchItem) -> str:
        """As in 5.5.0, items get none of the stamps of single messages."""
        if not item.body:
            raise Refused(Refusal.MESSAGE_ILLEGAL, "a body in the batch is empty; send at least one byte")
        text = properties.without(separated(item.properties_text), properties.BROKER_ONLY)
        if properties.find(text, properties.TRANSACTION_PREPARED) == "true":
            raise Refused(Refusal.MESSAGE_ILLEGAL, "a batch cannot hold transactional messages")
        if any(is_set(text, name) for name in properties.DELAYS):
            raise Refused(Refusal.MESSAGE_ILLEGAL, "a batch cannot hold delayed messages")
        if not unique_key_of(text):
            text = with_unique_key(text, self._unique_ids.next())
        check_properties(text)
        return text

    def _finish(
        self,
        session: ClientSession,
        command: Command,
        places: list[Placement],
        queue_id: int,
        unique_key: str,
        error: StoreError | None,
    ) -> None:
        session.send(answer_to(command, self._answers.batch_stored(command, places, queue_id, unique_key), error))
