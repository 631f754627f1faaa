"""Sending several ordinary messages for one queue together: either all are stored, or all are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from gantrymq.broker.client import Client
from gantrymq.broker.durability import Done, Durability, refusal
from gantrymq.broker.operations.admission import (
    FITS_ANYWAY,
    SENDER_FLAGS,
    Admission,
    Target,
    check_properties,
    is_set,
    separated,
    unique_key_of,
    waits,
    with_unique_key,
)
from gantrymq.broker.operations.message_types import check_kind, kind_of
from gantrymq.broker.operations.properties_text import read_ordinary
from gantrymq.broker.refusal import Refusal, Refused
from gantrymq.broker.submission import Submission
from gantrymq.errors import StoreError
from gantrymq.message import properties, system_topics
from gantrymq.message.send_status import SendStatus
from gantrymq.message.submission import BatchItem
from gantrymq.protocol.message_ids import UniqueIds
from gantrymq.store.log.appender import RunItem
from gantrymq.store.log.conditions import Unconfirmed


@dataclass(frozen=True, slots=True)
class BatchStored:
    """Where the messages of a batch were stored, and how safely."""

    log_offsets: tuple[int, ...]
    queue_offset: int
    """Of the first one."""
    queue_id: int
    unique_key: str
    """Of the batch as its sender gave it; empty when there is none."""
    status: SendStatus = SendStatus.SEND_OK


BatchAnswered: TypeAlias = Callable[[BatchStored | Refused], None]


class BatchSends:
    """Takes batches."""

    def __init__(self, admission: Admission, durability: Durability, unique_ids: UniqueIds) -> None:
        self._admission = admission
        self._durability = durability
        self._unique_ids = unique_ids

    def send(
        self, client: Client, batch: Submission, body_bytes: int, items: Iterable[BatchItem],
        answered: BatchAnswered | None,
    ) -> None:  # fmt: skip
        """Store ``items``, which had ``body_bytes`` together when they came; ``answered`` as of ``Sends.send``. Raises
        Refused, or what reading ``items`` raises; then nothing was stored."""
        target = self._admission.target(batch)
        self._admission.check_body(body_bytes)
        if target.is_retry or batch.topic.startswith(system_topics.DEAD_LETTER_PREFIX):
            raise Refused(Refusal.MESSAGE_ILLEGAL, "batch request does not support retry group")
        queue_id = self._admission.queue(batch.queue_id, target, batch.topic)
        birth = (batch.born_timestamp, client.host, 0, batch.sys_flag & SENDER_FLAGS, 0)
        run = [self._read(item, target, batch.topic) for item in items]
        places, end, queue_offset = self._durability.append_run(batch.topic, queue_id, run, birth)
        if answered is None:
            return
        text = batch.properties or ""
        stored = BatchStored(tuple(places), queue_offset, queue_id, unique_key_of(text))
        finish: Done = partial(_answer, answered, stored)
        if target.made_topic:
            finish = self._admission.when_known(finish)
        self._durability.when_stored(end, waits(text), finish)

    def _read(self, item: BatchItem, target: Target, topic: str) -> RunItem:
        """An item as it is stored. Raises Refused."""
        flag, body, text = item
        text = separated(text)
        if target.kinds is not None:
            check_kind(kind_of(text), topic, target.kinds)
        found = read_ordinary(text) if len(text) <= FITS_ANYWAY and body else None
        if found is None:
            return body, self._properties_of(item), flag, None, None
        key, _, tags_code, _, is_half = found
        if is_half:
            raise Refused(Refusal.MESSAGE_ILLEGAL, "a batch cannot hold transactional messages")
        if not key:
            key = self._unique_ids.next()
            text = with_unique_key(text, key)
        return body, text, flag, key, tags_code

    def _properties_of(self, item: BatchItem) -> str:
        """As in 5.5.0, items get none of the stamps of single messages."""
        if not item.body:
            raise Refused(Refusal.MESSAGE_ILLEGAL, "a body in the batch is empty; send at least one byte")
        text = properties.without(separated(item.properties_text), properties.BROKER_ONLY)
        if properties.find(text, properties.TRANSACTION_PREPARED) == "true":
            raise Refused(Refusal.MESSAGE_ILLEGAL, "a batch cannot hold transactional messages")
        if any(is_set(text, name) for name in properties.DELAYS):
            raise Refused(Refusal.MESSAGE_ILLEGAL, "a batch cannot hold delayed messages")
        if properties.find(text, properties.LITE_TOPIC) is not None:
            raise Refused(Refusal.MESSAGE_ILLEGAL, "a batch cannot hold messages to lite topics; send them one by one")
        if not unique_key_of(text):
            text = with_unique_key(text, self._unique_ids.next())
        check_properties(text)
        return text


def _answer(answered: BatchAnswered, stored: BatchStored, error: StoreError | None) -> None:
    if isinstance(error, Unconfirmed):
        answered(replace(stored, status=error.status))
    else:
        answered(stored if error is None else refusal(error))
