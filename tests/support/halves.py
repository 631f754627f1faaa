"""Half messages in the form of the log, for tests that write them without a broker."""

from __future__ import annotations

from dataclasses import replace

from gantrymq.message import flags, properties
from gantrymq.message.system_topics import HALF
from gantrymq.store.values import NewRecord
from gantrymq.transactions.records.half import HALF_QUEUE_ID, with_real_place


def half_record(sent: NewRecord, real_topic: str, real_queue_id: int, unique_key: str) -> NewRecord:
    """The half message that keeps ``sent`` until its transaction ends."""
    text = with_real_place(properties.append(sent.properties, ""), real_topic, real_queue_id, unique_key)
    return replace(
        sent, topic=HALF, queue_id=HALF_QUEUE_ID, properties=text, sys_flag=sent.sys_flag & ~flags.TRANSACTION_MASK
    )
