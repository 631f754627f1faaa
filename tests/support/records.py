"""Records of the log given by all their fields in a row."""

from __future__ import annotations

from gantrymq.protocol import stored_message


def encode_record(
    topic: bytes, body: bytes, properties_text: bytes, queue_id: int, queue_offset: int, log_offset: int,
    born_timestamp: int, born_host: bytes, store_timestamp: int, store_host: bytes, flag: int = 0, sys_flag: int = 0,
    reconsume_times: int = 0, prepared_transaction_offset: int = 0,
) -> bytes:  # fmt: skip
    place = (queue_id, queue_offset, log_offset, store_timestamp, store_host)
    birth = (born_timestamp, born_host, flag, sys_flag, reconsume_times)
    return stored_message.encode_record(topic, body, properties_text, place, birth, prepared_transaction_offset)
